// SPDX-License-Identifier: MIT
// The daemon without its wire: sessions, buffers, programs, runs. What server/rpc calls.
//
// Thread-safe. Calls that name a session are made on its strand (session.h); everything else on any
// thread. Every request holds a Work from its beginning to its end, so that Drain knows when all
// are done. Members are declared so that what is used dies after its users: threads stop first,
// store and devices go last.
//
// Lock order: SessionTable before nothing; Strand, BufferStore, ProgramTable, KernelLoader,
// DeviceState are leaves.
#pragma once
#include <atomic>
#include <condition_variable>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cache/store.h"
#include "core/base/config.h"
#include "server/engine/compile/compile_service.h"
#include "server/engine/compile/key_explainer.h"
#include "server/engine/run/run_service.h"
#include "server/engine/session/peer_rates.h"
#include "server/engine/session/session_table.h"
#include "server/engine/tune/worker_tuner.h"
#include "server/engine/tune/workers.h"

namespace uopd::engine {

struct ExecuteCall {
  uint64_t request_id = 0;  // 0: not idempotent
  GraphRef graph;
  CompileOptions options;
  RunCall run;
  int debug = 0;
};

class Engine;

// One request in progress.
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

  // INVALID_ARGUMENT or UNAVAILABLE when the default device cannot be opened. `forks` outlives the
  // engine; null: there are no workers, so that it compiles in this process and does not tune.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const Config& config,
                                                        std::unique_ptr<Pipeline> pipeline,
                                                        std::unique_ptr<cache::Store> store,
                                                        std::unique_ptr<devices::Registry> registry,
                                                        worker::ForkServer* forks);
  ~Engine();

  // What a new configuration may change while running.
  void Reload(const Config& config);

  // UNAVAILABLE once draining.
  absl::StatusOr<Work> Begin();
  // Refuses new work and ends tuning at once; true when all work is done before `deadline`. Runs
  // and compiles that still go on then are ended, and have kStopTime to notice.
  bool Drain(std::chrono::steady_clock::time_point deadline) UOPD_EXCLUDES(drain_mu_);
  bool draining() const { return draining_.load(std::memory_order_acquire); }
  // Empty when requests can be served as they should be, otherwise all reasons why not.
  std::string Unready();

  SessionTable& sessions() { return sessions_; }
  Quota& client_bytes() { return total_; }  // limits.total_bytes
  PeerRates& peer_rates() { return peer_rates_; }
  DeviceSet& devices() { return devices_; }
  cache::Store& store() { return *store_; }
  Executor& executor() { return executor_; }
  KeyExplainer& explainer() { return explainer_; }
  Workers* workers() { return workers_.get(); }  // null: none

  absl::Status CreateBuffer(Session& session, uint64_t handle, uint64_t bytes,
                            std::string_view device);
  // Creates the buffer first if the handle is new and `bytes` says how large; then true.
  absl::StatusOr<bool> OpenUpload(Session& session, uint64_t handle, uint64_t bytes,
                                  std::string_view device);
  absl::Status Write(Session& session, uint64_t handle, uint64_t offset, std::string_view data);
  absl::Status Read(Session& session, uint64_t handle, uint64_t offset, std::span<char> out);

  absl::StatusOr<std::shared_ptr<const Program>> Prepare(RequestContext& request,
                                                         const GraphRef& graph,
                                                         const CompileOptions& options);
  // Prepares for the request and calls done on any thread, perhaps before it returns; until then
  // `request` and the bytes of `graph` stay where they are. Prepare, Execute and RunOnce then find
  // the program in the request. Holds no thread while it waits for others.
  void PrepareThen(RequestContext& request, const GraphRef& graph, const CompileOptions& options,
                   absl::AnyInvocable<void(absl::Status)> done);
  // True when the program is there; then the request has it.
  bool FindPrepared(RequestContext& request, const GraphRef& graph, const CompileOptions& options);
  // What runs the request's program, which is there: one that may be long runs at a lower priority,
  // on threads of its own, so that small work finds a thread and the processor.
  Executor& RunnerOf(const RequestContext& request);
  // True when the call takes microseconds: it is prepared and small.
  bool IsQuick(const GraphRef& graph, const CompileOptions& options);
  absl::StatusOr<ExecuteResult> Execute(RequestContext& request, Session& session,
                                        const ExecuteCall& call);
  // Ends the request of this id wherever it is; one that is done stays done.
  static void Cancel(Session& session, uint64_t request_id) { session.cancelled().Add(request_id); }
  // Execute without a session: all buffers live for this call only.
  absl::StatusOr<ExecuteResult> RunOnce(RequestContext& request, const ExecuteCall& call,
                                        Digest* digest);

  RunWatch& runs() { return watch_; }  // that go on now and may be long
  // How long a stream may wait for its client.
  std::chrono::milliseconds stream_idle() const {
    return std::chrono::milliseconds(stream_idle_ms_.load(std::memory_order_relaxed));
  }
  int64_t session_bytes() const { return session_bytes_.load(std::memory_order_relaxed); }

 private:
  friend class Work;
  Engine(const Config& config, std::unique_ptr<Pipeline> pipeline,
         std::unique_ptr<cache::Store> store, std::unique_ptr<devices::Registry> registry,
         worker::ForkServer* forks);
  void EndWork();
  bool AwaitWork(std::chrono::steady_clock::time_point deadline) UOPD_EXCLUDES(drain_mu_);
  // With the daemon's own choice for what a request leaves open.
  CompileOptions Resolved(CompileOptions options) const;
  absl::Status Check(const CompileOptions& wanted, const CompileOptions& options) const;
  RunLimits Limits(int debug) const;
  // The answer to a request whose id has been used.
  absl::StatusOr<ExecuteResult> Repeat(Session& session, uint64_t request_id,
                                       const ResultMemory::Known& known);
  // Of a call of `session`; null: of one without.
  RunTerms TermsOf(Session* maybe_session, uint64_t request_id);

  const int64_t max_return_bytes_;
  const int cache_level_;    // bounds that of requests
  const bool cache_writes_;  // by its settings
  std::atomic<int64_t> session_bytes_;
  std::atomic<int64_t> run_ms_;
  std::atomic<int> debug_, beam_;
  std::atomic<int64_t> stream_idle_ms_;
  PeerRates peer_rates_;
  Quota total_;
  const std::unique_ptr<Pipeline> pipeline_;
  const std::unique_ptr<cache::Store> store_;
  DeviceSet devices_;
  worker::ForkServer* const forks_;           // null: none
  const std::unique_ptr<Workers> workers_;    // null: none
  const std::unique_ptr<WorkerTuner> tuner_;  // null: none
  Executor compilers_;
  KeyExplainer explainer_;
  CompileService compile_;
  SessionTable sessions_;
  RunWatch watch_;
  // Their tasks end before anything that they use.
  Executor executor_;
  Executor long_runs_;

  std::atomic<bool> draining_{false};
  std::atomic<int64_t> working_{0};
  Mutex drain_mu_;
  std::condition_variable drained_;
};

}  // namespace uopd::engine
