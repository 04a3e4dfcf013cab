// SPDX-License-Identifier: MIT
// The daemon without its network side: sessions, buffers, programs and runs. server/rpc calls it.
//
// Thread-safe. Calls that name a session are made on its strand (session.h); all other calls may
// come from any thread. Every request holds a Work from its beginning to its end, so that Drain
// knows when all requests are done. The order of the members matters: users are destroyed before
// what they use. Threads stop first; the store and the devices are destroyed last.
//
// Lock order: no lock is taken while holding the lock of SessionTable, Strand, BufferStore,
// ProgramTable, KernelLoader or DeviceState.
#pragma once
#include <atomic>
#include <condition_variable>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "cache/store.h"
#include "core/base/config/config.h"
#include "server/engine/compile/compile_service.h"
#include "server/engine/compile/schedule/key_explainer.h"
#include "server/engine/gauges.h"
#include "server/engine/kept/kept_runs.h"
#include "server/engine/operate/cache_operator.h"
#include "server/engine/operate/cache_transfer.h"
#include "server/engine/operate/daemon_status.h"
#include "server/engine/operate/tune_operations.h"
#include "server/engine/readiness.h"
#include "server/engine/report/measured_speeds.h"
#include "server/engine/report/roofs.h"
#include "server/engine/run/run_service.h"
#include "server/engine/session/peer_rates.h"
#include "server/engine/session/session_table.h"
#include "server/engine/session/tenants.h"
#include "server/engine/session/unread_answers.h"
#include "server/engine/tune/worker_tuner.h"
#include "server/engine/tune/workers.h"

namespace uopd::engine {

// A program and its arguments. Everything that it refers to stays valid until the call is answered.
struct ExecuteCall {
  // The thread that may run the program.
  enum class Where : uint8_t {
    // This thread, if the program is prepared and short. This thread belongs to the task pool, or
    // IsQuick.
    kHere,
    kOnTaskPool,
  };
  Where where = Where::kOnTaskPool;
  uint64_t request_id = 0;  // 0: not idempotent
  ResolvedRequest wanted;
  RunCall run;
  // What the request wants to know about its run (RunReport).
  int debug = 0;
  bool profile = false;
};

class Engine;

// Marks one request in progress.
class Work {
 public:
  Work() = default;
  ~Work() { Release(); }
  Work(Work&& other) noexcept : engine_(std::exchange(other.engine_, nullptr)) {}
  Work& operator=(Work&& other) noexcept {
    Release();
    engine_ = std::exchange(other.engine_, nullptr);
    return *this;
  }

 private:
  friend class Engine;
  explicit Work(Engine* engine) : engine_(engine) {}
  void Release();
  Engine* engine_ = nullptr;
};

class Engine {
 public:
  static constexpr std::chrono::milliseconds kStopTime{1000};

  // INVALID_ARGUMENT: a wrong setting. A device that does not open is no error: it is not ready,
  // and is tried again when somebody asks for it. `forks` outlives the engine. Null: there are no
  // workers, so the engine compiles in this process and does not tune.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(
      const Config& config, std::unique_ptr<GraphCompiler> graph_compiler,
      std::unique_ptr<cache::Store> store, std::unique_ptr<devices::Registry> registry,
      worker::ForkServer* forks);
  ~Engine();

  // Applies those settings of a new configuration that may change while the daemon runs.
  void Reload(const Config& config);

  // Begins a request. UNAVAILABLE once the daemon drains.
  absl::StatusOr<Work> Begin();
  // From now on the daemon says that it is not ready; it still serves.
  void Leave() { leaving_.store(true, std::memory_order_release); }
  bool leaving() const { return leaving_.load(std::memory_order_acquire); }
  // What a drain cut off.
  struct Drained {
    int64_t requests = 0;
    size_t sessions = 0;                                      // of which a request was cut off
    explicit operator bool() const { return requests == 0; }  // nothing
  };
  // Refuses new work and ends tuning and upgrades at once. Work that is not done at `deadline` is
  // cut off: the runs and compiles that remain are told to end, and have kStopTime to notice.
  Drained Drain(std::chrono::steady_clock::time_point deadline) UOPD_EXCLUDES(drain_mu_);
  bool draining() const { return draining_.load(std::memory_order_acquire); }
  // Devices that nobody has asked for yet are not opened to find out. With `reopen`, the default
  // device is tried again, which may take seconds.
  Readiness GetReadiness(bool reopen);
  // The reasons why requests cannot be served properly; empty: they can.
  std::string Unready() { return Texts(GetReadiness(true).not_ready, "; "); }
  // Every configured device, and whether it is ready to run something; one that nobody has asked
  // for yet is, one of device.compile_only never is. With `reopen`, lost devices are tried again,
  // as soon as the registry allows it. That may take seconds.
  std::vector<std::pair<std::string, bool>> ReadyDevices(bool reopen);

  // For operators. Opens nothing.
  DaemonStatus Status();
  std::vector<SettingView> SettingsInEffect() UOPD_EXCLUDES(settings_mu_);
  // server.drain_timeout_ms
  std::chrono::milliseconds drain_timeout() const {
    return std::chrono::milliseconds(drain_timeout_ms_.load(std::memory_order_relaxed));
  }

  // Another one after every start of the daemon.
  const std::string& instance() const { return instance_; }
  SessionTable& sessions() { return sessions_; }
  Quota& client_bytes() { return total_; }  // limits.total_bytes
  // Charges for a message. It does not wait for kept values that give way, but may exceed the limit
  // by their bytes.
  absl::StatusOr<Charge> ChargeMessage(int64_t bytes);
  UnreadAnswers& unread() { return unread_; }
  PeerRates& peer_rates() { return peer_rates_; }
  DeviceSet& devices() { return devices_; }
  cache::Store& store() { return *store_; }
  // Those of now, who do not change; a reload puts others in their place.
  std::shared_ptr<const Tenants> tenants() const UOPD_EXCLUDES(tenants_mu_) {
    MutexLock lock(tenants_mu_);
    return tenants_;
  }
  uint64_t tenants_version() const { return tenants_version_.load(std::memory_order_acquire); }
  // Reads the file of tokens that the daemon was started with, and who is an operator. An error
  // about the file changes nothing. After one about operators they stay as they were, and the
  // tokens are those of the file: what was taken away has to go.
  absl::Status ReloadTenants(const Config& config) UOPD_EXCLUDES(tenants_mu_);
  TaskPool& task_pool() { return task_pool_; }
  KeyExplainer& explainer() { return explainer_; }
  CacheOperator& cache_operator() { return cache_operator_; }
  TuneOperations& tune_operations() { return tune_operations_; }
  // TuneOperations::Start on a thread for new graphs, with the daemon's own choice for options that
  // are left open. Calls `done` on any thread. Until then `request` and the bytes of the graph stay
  // where they are.
  using TuneStarted = absl::AnyInvocable<void(absl::StatusOr<TuneOperations::OperationPtr>)>;
  void StartTune(RequestContext& request, TuneWish wish, TuneStarted done);
  // The keys for bundles. Set before requests come.
  const BundleKeys& bundle_keys() const { return bundle_keys_; }
  void set_bundle_keys(BundleKeys keys) { bundle_keys_ = std::move(keys); }
  const CompileService& compiles() const { return compile_; }
  MeasuredSpeeds& measured_speeds() { return measured_speeds_; }
  RecentFailures& failures() { return failures_; }
  Workers* workers() { return workers_.get(); }  // null: none

  // The calls that name a session say once, with DATA_LOSS, which buffers of the session were lost
  // with their devices (buffer_store.h). The first call after a loss says it, whatever it is about.
  absl::Status CreateBuffer(Session& session, uint64_t handle, uint64_t bytes,
                            std::string_view device);
  // If the handle is new and `bytes` gives a size, creates the buffer and returns true.
  absl::StatusOr<bool> OpenUpload(Session& session, uint64_t handle, uint64_t bytes,
                                  std::string_view device);
  absl::Status Write(Session& session, uint64_t handle, uint64_t offset, std::string_view data);
  absl::Status Read(Session& session, uint64_t handle, uint64_t offset, std::span<char> out);

  // The same with data in the memory that the client shares with the daemon. NOT_FOUND (area), or
  // INVALID_ARGUMENT: bytes outside of the area.
  struct AreaRange {
    uint64_t area = 0, offset = 0, bytes = 0;
  };
  absl::Status WriteFromArea(Session& session, uint64_t handle, uint64_t offset,
                             const AreaRange& range);
  absl::Status ReadToArea(Session& session, uint64_t handle, uint64_t offset,
                          const AreaRange& range);

  // The first step of a request for a program. Takes microseconds: a large graph is hashed later.
  ResolvedRequest Resolve(const GraphRef& graph, const CompileOptions& options);
  // Prepares the program of a request and calls `done` on any thread, perhaps before Prepare
  // returns. Until then `request` and the bytes of the graph stay where they are. Holds no thread
  // while it waits for others.
  using Prepared = absl::AnyInvocable<void(absl::StatusOr<std::shared_ptr<const Program>>)>;
  void Prepare(RequestContext& request, ResolvedRequest wanted, Prepared done);
  // The pool that runs the request's program. REQUIRES: the program is prepared. A program that may
  // be long runs with low priority on threads of its own, so that small work finds a thread and the
  // processor.
  TaskPool& RunnerOf(const RequestContext& request);
  // True: the call takes only microseconds of the calling thread and is done when it returns. The
  // program is then prepared and small, and its devices run inline.
  static bool IsQuick(const ResolvedRequest& wanted);
  // Prepares the program if necessary, runs it, and calls `done` on any thread, perhaps before
  // Execute returns. Until then `request`, `session` and everything that `call` refers to stay
  // valid, and the session's turn is held.
  void Execute(RequestContext& request, Session& session, const ExecuteCall& call, RunDone done);
  // Ends the request of this id, wherever it is. No effect on a request that is done.
  static void Cancel(Session& session, uint64_t request_id) { session.cancelled().Add(request_id); }
  // Execute without a session: all buffers live only for this call. `*digest` is set to the
  // program's.
  void RunOnce(RequestContext& request, const ExecuteCall& call, Digest* digest, RunDone done);

  RunWatch& runs() { return watch_; }  // the long runs of this daemon
  // How long a stream may wait for its client.
  std::chrono::milliseconds stream_idle() const {
    return std::chrono::milliseconds(stream_idle_ms_.load(std::memory_order_relaxed));
  }
  // Requests that take longer are written to the log. 0: none.
  int64_t slow_ns() const { return slow_ns_.load(std::memory_order_relaxed); }
  int64_t session_bytes() const { return session_bytes_.load(std::memory_order_relaxed); }

 private:
  friend class Work;
  Engine(const Config& config, std::unique_ptr<GraphCompiler> graph_compiler,
         std::unique_ptr<cache::Store> store, std::unique_ptr<devices::Registry> registry,
         worker::ForkServer* forks);
  void EndWork();
  // The pools of threads, by the names that metrics have.
  std::vector<std::pair<const char*, const TaskPool*>> Pools();
  // Lets go of everything that is on devices that were lost since the last call.
  void NoteLosses();
  // BufferStore::TakeLoss. After a loss it also lets go of everything else.
  absl::Status TakeLoss(Session& session);
  // The error of a call, or, if buffers of the session were lost with a device, what is lost.
  absl::Status Explained(Session& session, absl::Status error);
  // Does `work` unless there is a loss to tell.
  absl::Status WithBuffers(Session& session, absl::FunctionRef<absl::Status()> work);
  bool AwaitWork(std::chrono::steady_clock::time_point deadline) UOPD_EXCLUDES(drain_mu_);
  // Fills in the daemon's own choice for options that the request leaves open.
  CompileOptions Resolved(CompileOptions options) const;
  absl::Status Check(const CompileOptions& wanted, const CompileOptions& options) const;
  RunLimits Limits() const;
  // Gets the program of a call that is to run now, and calls `run` with it on the thread for the
  // run.
  void WithProgram(RequestContext& request, Session* maybe_session, const ExecuteCall& call,
                   Prepared run);
  // Prepare, and the preparation, if it was begun.
  std::shared_ptr<Preparation> Begin(RequestContext& request, ResolvedRequest wanted,
                                     Prepared done);
  // The same for a call with a request id: Cancel ends the wait.
  void PrepareUnlessCancelled(RequestContext& request, Session& session, uint64_t id,
                              ResolvedRequest wanted, Prepared run);
  std::shared_ptr<const Program> ProgramOf(RequestContext& request) const;
  // Fills in what the report of the request has before the run, which may take seconds, and then
  // calls `run` on the thread for the run.
  void BeginReport(RequestContext& request, std::shared_ptr<const Program> program, Prepared run);
  // Writes the code of the program to the log, once, if debug.level asks for it. Does not wait.
  void LogCode(const RequestContext& request, std::shared_ptr<const Program> program);
  // Runs a call whose program is known, in the turn of the session.
  void RunIn(RequestContext& request, Session& session, const ExecuteCall& call,
             std::shared_ptr<const Program> program, RunDone done);
  // Runs it with what earlier runs of the session have kept, if they have.
  std::shared_ptr<KeptRuns> KeptOf(Session& session);
  void RunWithKept(RunInput input, Session& session, const ProgramKey& key, RunDone done);
  // Makes values in the background, as a part of `work`.
  void MakeKept(Work work, KeptMake make, KeptMake::Done made);
  // The answer to a request whose id was used before.
  absl::StatusOr<ExecuteResult> Repeat(Session& session, uint64_t request_id,
                                       const ResultMemory::Known& known);
  // The terms of a call of `session`. Null: a call without a session.
  RunTerms TermsOf(Session* maybe_session, uint64_t request_id);

  const int64_t max_return_bytes_;
  const int cache_level_;    // upper bound of a request's cache_level
  const bool cache_writes_;  // the settings allow writes
  std::atomic<int64_t> session_bytes_, kept_bytes_;
  std::atomic<int64_t> run_ms_;
  std::atomic<int> debug_, beam_;
  std::atomic<int64_t> stream_idle_ms_, slow_ns_, drain_timeout_ms_;
  const int64_t started_us_ = cache::WallClockUs();
  Mutex settings_mu_;
  std::vector<SettingView> settings_ UOPD_GUARDED_BY(settings_mu_);
  // Used when a Work ends, which may happen on a thread of the pools below. So the pools are
  // destroyed before these members.
  std::atomic<bool> leaving_{false}, draining_{false};
  std::atomic<int64_t> working_{0};
  Mutex drain_mu_;
  std::condition_variable drained_;
  PeerRates peer_rates_;
  Quota total_;
  UnreadAnswers unread_{total_};
  const std::unique_ptr<GraphCompiler> graph_compiler_;
  const std::string token_file_;
  mutable Mutex tenants_mu_;
  std::shared_ptr<const Tenants> tenants_ UOPD_GUARDED_BY(tenants_mu_);  // set by Create
  std::atomic<uint64_t> tenants_version_{0};
  std::string instance_;  // set by Create
  const std::unique_ptr<cache::Store> store_;
  DeviceSet devices_;
  RecentFailures failures_;
  worker::ForkServer* const forks_;         // null: none
  const std::unique_ptr<Workers> workers_;  // null: none
  const SearchMemory search_memory_;
  const std::unique_ptr<WorkerTuner> tuner_;  // null: none
  TaskPool compilers_;
  KeyExplainer explainer_;
  CompileService compile_;
  CacheOperator cache_operator_;
  TuneOperations tune_operations_;
  BundleKeys bundle_keys_;
  KeptPrograms kept_programs_;
  PreemptibleTable preemptible_;
  Roofs roofs_;
  MeasuredSpeeds measured_speeds_;
  SessionTable sessions_;
  RunWatch watch_;
  // Declared last: the tasks of the pools use the members above, and end before these are
  // destroyed.
  TaskPool task_pool_;
  TaskPool long_runs_;
  TaskPool makings_;  // of kept values
  Gauges gauges_;     // its thread reads the members above
};

}  // namespace uopd::engine
