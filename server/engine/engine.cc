// SPDX-License-Identifier: MIT
#include "server/engine/engine.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "core/base/machine/process_limits.h"
#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "server/engine/base/lease_owner.h"
#include "server/engine/base/random_id.h"

namespace uopd::engine {
namespace {

int RunThreads() { return std::max(4, 2 * UsableProcessors()); }

// The limits leave a thread for other clients even if the runs of one client never end.
TaskPool::Running RunningLimits() {
  return {.of_peer = static_cast<size_t>(RunThreads() - 1),
          .of_flow = static_cast<size_t>(RunThreads() / 2)};
}

// How many sessions the engine makes kept values for at the same time.
constexpr int kMakingThreads = 2;

SessionOptions SessionOptionsOf(const Config& config) {
  SessionOptions out;
  out.ttl = config.session_ttl_ms();
  out.grace = config.session_grace_ms();
  out.max_sessions = static_cast<size_t>(config.limits_sessions());
  out.max_peer_sessions = static_cast<size_t>(config.limits_peer_sessions());
  out.session_bytes = config.limits_session_bytes();
  if (config.limits_peer_bytes() > 0) out.peer_bytes = config.limits_peer_bytes();
  out.session_buffers = static_cast<size_t>(config.limits_session_buffers());
  return out;
}

GraphLimits GraphLimitsOf(const Config& config, Quota& total) {
  GraphLimits out;
  out.max_nodes = static_cast<size_t>(config.limits_max_graph_nodes());
  out.charge = [&total](int64_t bytes) -> absl::StatusOr<std::shared_ptr<const void>> {
    UOPD_ASSIGN(Charge charge, Charge::Take(total, bytes, ByteClass::kGraphs));
    return std::make_shared<const Charge>(std::move(charge));
  };
  return out;
}

ContentStore::Limits ContentLimitsOf(const Config& config) {
  const int64_t memory = config.content_memory_bytes();
  return {.memory_bytes = memory > 0 ? memory : config.limits_total_bytes() / 2,
          .disk_bytes = config.content_disk_bytes()};
}

std::string ContentFolderOf(const Config& config) {
  return config.server_data_dir().empty() ? "" : Cat(config.server_data_dir(), "/contents");
}

int CompileThreads(const Config& config) {
  // The thread that asks for kernels also compiles.
  const int64_t wanted = config.compile_threads();
  return wanted > 0 ? static_cast<int>(wanted) : UsableProcessors();
}

CompileService::Options CompileOptionsOf(const Config& config, const DeviceSet& devices,
                                         Workers* workers, KernelTuner* tuner,
                                         KeyExplainer& explainer, RecentFailures& failures,
                                         Quota& total) {
  CompileService::Options out;
  if (workers != nullptr) {
    out.compilers = &workers->compile();
    out.upgraders = &workers->upgrade();
  }
  out.fast_tier = config.compile_fast_tier();
  out.upgrade_threads = CompileThreads(config);
  out.compile_limit = config.compile_timeout_ms();
  out.tuner = tuner;
  out.failures = &failures;
  out.explainer = &explainer;
  out.lease = {.owner = LeaseOwner(),
               .ttl_us = std::chrono::microseconds(config.compile_lease_ms()).count(),
               .patience = 2 * config.compile_timeout_ms()};
  // A search, and those before it on its processor.
  out.tuning.patience = 4 * config.tune_timeout_ms();
  out.tuning.gate.settle_us = std::chrono::microseconds(config.tune_settle_ms()).count();
  out.tuning.gate.alone_after_us = std::chrono::microseconds(config.tune_alone_after_ms()).count();
  out.repro_folder = Cat(config.server_data_dir(), "/repro");
  out.device_list = absl::StrJoin(devices.names(), ",");
  out.limits = GraphLimitsOf(config, total);
  out.threads = std::max(8, 4 * UsableProcessors());
  return out;
}

std::unique_ptr<Workers> MakeWorkers(const Config& config, const DeviceSet& devices,
                                     worker::ForkServer* forks, cache::Store& store) {
  if (forks == nullptr) return nullptr;
  return std::make_unique<Workers>(*forks, config, devices.names(), CompileThreads(config), store);
}

std::unique_ptr<WorkerTuner> MakeTuner(const Config& config, Workers* workers,
                                       worker::ForkServer* forks, const SearchMemory& memory) {
  if (workers == nullptr) return nullptr;
  WorkerTuner::Limits limits;
  limits.timeout = config.tune_timeout_ms();
  limits.run_limit = config.tune_run_ms();
  limits.max_candidates = static_cast<int>(config.tune_candidates());
  return std::make_unique<WorkerTuner>(
      [workers](const devices::Device& device) { return workers->tuning(device.info().name); },
      limits, &memory, [forks] { return forks->Unready(); });
}

}  // namespace

Engine::Tuning::Tuning(const Config& config, worker::ForkServer* maybe_forks, cache::Store& store,
                       const DeviceSet& devices)
    : workers(MakeWorkers(config, devices, maybe_forks, store)),
      memory(store),
      tuner(MakeTuner(config, workers.get(), maybe_forks, memory)) {}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(
    const Config& config, std::unique_ptr<GraphCompiler> graph_compiler,
    std::unique_ptr<cache::Store> store, std::unique_ptr<devices::Registry> registry,
    worker::ForkServer* forks) {
  std::unique_ptr<Engine> engine(
      new Engine(config, std::move(graph_compiler), std::move(store), std::move(registry), forks));
  absl::Status opened = engine->devices_.Get("").status();
  if (absl::IsInvalidArgument(opened)) return opened;
  if (!opened.ok()) UOPD_LOG(kError, "the default device is not ready", {"why", opened});
  UOPD_TRY(engine->tenants_.Reload(config));
  UOPD_ASSIGN(engine->instance_, RandomId());
  Publish(
      engine->health_.GetReadiness(false));  // so that the series exist before the first request
  engine->contents_.Publish();
  if (config.compile_warm_up()) engine->compile_.WarmUp();
  return engine;
}

Engine::Engine(const Config& config, std::unique_ptr<GraphCompiler> graph_compiler,
               std::unique_ptr<cache::Store> store, std::unique_ptr<devices::Registry> registry,
               worker::ForkServer* forks)
    : settings_(config),
      clients_(config.limits_peer_requests_per_s(), config.limits_total_bytes()),
      tenants_(config.server_token_file()),
      graph_compiler_(std::move(graph_compiler)),
      store_(std::move(store)),
      devices_(std::move(registry)),
      failures_({.unsupported = config.cache_failure_unsupported_ms(),
                 .compiler = config.cache_failure_compiler_ms(),
                 .tuning = config.cache_failure_tuning_ms()}),
      tuning_(config, forks, *store_, devices_),
      compilers_(CompileThreads(config), SIZE_MAX),
      explainer_(*graph_compiler_, *store_, devices_, GraphLimitsOf(config, clients_.bytes)),
      compile_(CompileOptionsOf(config, devices_, tuning_.workers.get(), tuning_.tuner.get(),
                                explainer_, failures_, clients_.bytes),
               *graph_compiler_, *store_, devices_, compilers_),
      operate_{.cache{*store_, *graph_compiler_, devices_, compile_.tuning(), tuning_.tuner.get()},
               .tune{{.owner = LeaseOwner()}, compile_, *store_},
               .speeds = MeasuredSpeeds(*store_)},
      contents_(ContentFolderOf(config), ContentLimitsOf(config), clients_.bytes),
      sessions_(SessionOptionsOf(config), clients_.bytes, task_pool_),
      losses_(devices_, compile_, contents_, sessions_),
      buffers_(devices_, clients_.preemptible, losses_),
      content_calls_(contents_, devices_, buffers_),
      programs_({.settings = settings_,
                 .gate = gate_,
                 .graph_compiler = *graph_compiler_,
                 .compile = compile_,
                 .tune_operations = operate_.tune,
                 .task_pool = task_pool_,
                 .long_runs = long_runs_}),
      runs_({.settings = settings_,
             .gate = gate_,
             .clients = clients_,
             .compile = compile_,
             .devices = devices_,
             .sessions = sessions_,
             .tenants = tenants_,
             .losses = losses_,
             .buffers = buffers_,
             .programs = programs_,
             .task_pool = task_pool_,
             .makings = makings_,
             .contents = contents_}),
      task_pool_(RunThreads(),
                 {.all = static_cast<size_t>(config.limits_waiting()),
                  .of_peer = static_cast<size_t>(config.limits_peer_waiting()),
                  .of_flow = static_cast<size_t>(config.limits_flow_waiting())},
                 RunningLimits()),
      long_runs_(RunThreads(), {}, RunningLimits(), devices::ThreadPriority::kBackground),
      makings_(kMakingThreads, SIZE_MAX),
      health_({.settings = settings_,
               .gate = gate_,
               .client_bytes = clients_.bytes,
               .store = *store_,
               .devices = devices_,
               .failures = failures_,
               .maybe_forks = forks,
               .maybe_workers = tuning_.workers.get(),
               .compile = compile_,
               .sessions = sessions_,
               .watch = runs_.watch(),
               .losses = losses_,
               .contents = contents_,
               .task_pool = task_pool_,
               .pools = Pools()}),
      gauges_({.store = *store_,
               .devices = devices_,
               .client_bytes = clients_.bytes,
               .failures = failures_,
               .sessions = sessions_,
               .maybe_workers = tuning_.workers.get(),
               .maybe_forks = forks,
               .pools = Pools(),
               .also = [this] {
                 Publish(health_.GetReadiness(false));
                 contents_.Publish();
               }}) {
  operate_.cache.set_pinned_percent(config.cache_pinned_percent());
  clients_.bytes.set_reclaim([this] {
    const bool kept = sessions_.Reclaim();  // which may be the last to use some contents
    return contents_.Drop() || kept;
  });
}

Engine::~Engine() { Drain(std::chrono::steady_clock::time_point::max()); }

NamedPools Engine::Pools() const {
  return {{"requests", &task_pool_},
          {"long_runs", &long_runs_},
          {"makings", &makings_},
          {"graphs", &compile_.pool_of_new_graphs()},
          {"own_graphs", &compile_.pool_of_own_graphs()},
          {"compile", &compilers_}};
}

void Engine::Reload(const Config& config) {
  settings_.Reload(config);
  store_->SetMaxBytes(config.cache_max_bytes());
  operate_.cache.set_pinned_percent(config.cache_pinned_percent());
  clients_.rates.set_per_second(config.limits_peer_requests_per_s());
  clients_.bytes.set_limit(config.limits_total_bytes());
  sessions_.set_options(SessionOptionsOf(config));
  contents_.set_limits(ContentLimitsOf(config));
}

Engine::Drained Engine::Drain(std::chrono::steady_clock::time_point deadline) {
  gate_.Close();
  operate_.tune.Stop();
  compile_.StopTuning();
  compile_.StopUpgrades();
  const bool done = gate_.AwaitNone(deadline);
  Drained out;
  if (!done) {
    out = {std::max<int64_t>(gate_.working(), 1), sessions_.in_use()};
  }
  compile_.StopCompiling();
  if (!done) {
    runs_.watch().StopAll();
    gate_.AwaitNone(std::chrono::steady_clock::now() + kStopTime);
  }
  return out;
}

}  // namespace uopd::engine
