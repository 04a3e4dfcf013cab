// SPDX-License-Identifier: MIT
// The daemon without its network side: what all calls share, and the parts that serve them.
// server/rpc calls the parts.
//
//   gate, clients, tenants, settings   who may come in, and how much clients may take
//   sessions, buffers, contents        what clients have here
//   programs, runs                     graphs to programs, programs to results
//   operate, health                    what operators see and do
//
// Thread-safe. Calls that name a session are made on its strand (session.h); all other calls may
// come from any thread. The order of the members matters: users are destroyed before what they use.
// Threads stop first; the store and the devices are destroyed last.
//
// Lock order: no lock is taken while holding the lock of SessionTable, Strand, BufferStore,
// ProgramTable, KernelLoader or DeviceState.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "cache/store.h"
#include "core/base/config/config.h"
#include "server/engine/base/work_gate.h"
#include "server/engine/buffer_calls.h"
#include "server/engine/compile/compile_service.h"
#include "server/engine/compile/schedule/key_explainer.h"
#include "server/engine/content/content_store.h"
#include "server/engine/content_calls.h"
#include "server/engine/gauges.h"
#include "server/engine/health.h"
#include "server/engine/live_settings.h"
#include "server/engine/losses.h"
#include "server/engine/operate/cache_operator.h"
#include "server/engine/operate/cache_transfer.h"
#include "server/engine/operate/tune_operations.h"
#include "server/engine/program_calls.h"
#include "server/engine/report/measured_speeds.h"
#include "server/engine/run_calls.h"
#include "server/engine/session/client_limits.h"
#include "server/engine/session/session_table.h"
#include "server/engine/session/tenant_table.h"
#include "server/engine/tune/worker_tuner.h"
#include "server/engine/tune/workers.h"

namespace uopd::engine {

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

  // Applies those settings of a new configuration that may change while the daemon runs. The
  // tenants have a reload of their own (TenantTable).
  void Reload(const Config& config);

  // What a drain cut off.
  struct Drained {
    int64_t requests = 0;
    size_t sessions = 0;                                      // of which a request was cut off
    explicit operator bool() const { return requests == 0; }  // nothing
  };
  // Refuses new work and ends tuning and upgrades at once. Work that is not done at `deadline` is
  // cut off: the runs and compiles that remain are told to end, and have kStopTime to notice.
  Drained Drain(std::chrono::steady_clock::time_point deadline);

  // Another one after every start of the daemon.
  const std::string& instance() const { return instance_; }
  const LiveSettings& settings() const { return settings_; }
  WorkGate& gate() { return gate_; }
  ClientLimits& clients() { return clients_; }
  TenantTable& tenants() { return tenants_; }
  const TenantTable& tenants() const { return tenants_; }
  SessionTable& sessions() { return sessions_; }
  DeviceSet& devices() { return devices_; }
  cache::Store& store() { return *store_; }
  TaskPool& task_pool() { return task_pool_; }

  BufferCalls& buffers() { return buffers_; }
  ContentCalls& contents() { return content_calls_; }
  const ContentStore& content_store() const { return contents_; }
  ProgramCalls& programs() { return programs_; }
  RunCalls& runs() { return runs_; }
  Health& health() { return health_; }
  const CompileService& compiles() const { return compile_; }
  KeyExplainer& explainer() { return explainer_; }
  RecentFailures& failures() { return failures_; }
  Workers* workers() { return tuning_.workers.get(); }  // null: none

  // The parts that only operators, and clients that tune, ask for.
  struct Operate {
    CacheOperator cache;
    TuneOperations tune;
    MeasuredSpeeds speeds;
    BundleKeys bundle_keys{};  // set before requests come
  };
  Operate& operate() { return operate_; }

 private:
  // `workers` and `tuner` are null if there are no worker processes.
  struct Tuning {
    std::unique_ptr<Workers> workers;
    SearchMemory memory;
    std::unique_ptr<WorkerTuner> tuner;

    Tuning(const Config& config, worker::ForkServer* maybe_forks, cache::Store& store,
           const DeviceSet& devices);
  };

  Engine(const Config& config, std::unique_ptr<GraphCompiler> graph_compiler,
         std::unique_ptr<cache::Store> store, std::unique_ptr<devices::Registry> registry,
         worker::ForkServer* forks);
  NamedPools Pools() const;

  std::string instance_;  // set by Create
  LiveSettings settings_;
  // Used when a Work ends, which may happen on a thread of the pools below. So the pools are
  // destroyed before these members.
  WorkGate gate_;
  ClientLimits clients_;
  TenantTable tenants_;
  const std::unique_ptr<GraphCompiler> graph_compiler_;
  const std::unique_ptr<cache::Store> store_;
  DeviceSet devices_;
  RecentFailures failures_;
  const Tuning tuning_;
  TaskPool compilers_;
  KeyExplainer explainer_;
  CompileService compile_;
  Operate operate_;
  ContentStore contents_;
  SessionTable sessions_;
  Losses losses_;
  BufferCalls buffers_;
  ContentCalls content_calls_;
  ProgramCalls programs_;
  RunCalls runs_;
  // Declared last: the tasks of the pools use the members above, and end before these are
  // destroyed.
  TaskPool task_pool_;
  TaskPool long_runs_;
  TaskPool makings_;  // of kept values
  Health health_;
  Gauges gauges_;  // its thread reads the members above
};

}  // namespace uopd::engine
