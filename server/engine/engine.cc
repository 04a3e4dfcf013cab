// SPDX-License-Identifier: MIT
#include "server/engine/engine.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "core/base/machine/process_limits.h"
#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/engine/base/lease_owner.h"
#include "server/engine/base/random_id.h"
#include "server/engine/base/shutting_down.h"
#include "server/engine/usage/tenant_usage.h"

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

// The part of a message that is reserved for what surrounds the returned data.
constexpr int64_t kMessageReserve = 16 << 10;

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

void Work::Release() {
  if (engine_ != nullptr) std::exchange(engine_, nullptr)->EndWork();
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(
    const Config& config, std::unique_ptr<GraphCompiler> graph_compiler,
    std::unique_ptr<cache::Store> store, std::unique_ptr<devices::Registry> registry,
    worker::ForkServer* forks) {
  std::unique_ptr<Engine> engine(
      new Engine(config, std::move(graph_compiler), std::move(store), std::move(registry), forks));
  absl::Status opened = engine->devices_.Get("").status();
  if (absl::IsInvalidArgument(opened)) return opened;
  if (!opened.ok()) UOPD_LOG(kError, "the default device is not ready", {"why", opened});
  UOPD_TRY(engine->ReloadTenants(config));
  UOPD_ASSIGN(engine->instance_, RandomId());
  Publish(engine->GetReadiness(false));  // so that the series exist before the first request
  if (config.compile_warm_up()) engine->compile_.WarmUp();
  return engine;
}

Engine::Engine(const Config& config, std::unique_ptr<GraphCompiler> graph_compiler,
               std::unique_ptr<cache::Store> store, std::unique_ptr<devices::Registry> registry,
               worker::ForkServer* forks)
    : max_return_bytes_(config.limits_max_message_bytes() - kMessageReserve),
      cache_level_(static_cast<int>(config.cache_level())),
      cache_writes_(cache_level_ > 0 && !config.cache_read_only()),
      session_bytes_(config.limits_session_bytes()),
      kept_bytes_(config.limits_session_kept_bytes()),
      run_ms_(config.limits_run_ms().count()),
      debug_(static_cast<int>(config.debug_level())),
      beam_(static_cast<int>(config.tune_beam())),
      stream_idle_ms_(config.limits_stream_idle_ms().count()),
      slow_ns_(std::chrono::nanoseconds(config.log_slow_ms()).count()),
      drain_timeout_ms_(config.server_drain_timeout_ms().count()),
      settings_(ViewsOf(config)),
      peer_rates_(config.limits_peer_requests_per_s()),
      total_("limits.total_bytes", config.limits_total_bytes()),
      graph_compiler_(std::move(graph_compiler)),
      token_file_(config.server_token_file()),
      store_(std::move(store)),
      devices_(std::move(registry)),
      failures_({.unsupported = config.cache_failure_unsupported_ms(),
                 .compiler = config.cache_failure_compiler_ms(),
                 .tuning = config.cache_failure_tuning_ms()}),
      forks_(forks),
      workers_(MakeWorkers(config, devices_, forks, *store_)),
      search_memory_(*store_),
      tuner_(MakeTuner(config, workers_.get(), forks, search_memory_)),
      compilers_(CompileThreads(config), SIZE_MAX),
      explainer_(*graph_compiler_, *store_, devices_, GraphLimitsOf(config, total_)),
      compile_(CompileOptionsOf(config, devices_, workers_.get(), tuner_.get(), explainer_,
                                failures_, total_),
               *graph_compiler_, *store_, devices_, compilers_),
      cache_operator_(*store_, *graph_compiler_, devices_, compile_.tuning(), tuner_.get()),
      tune_operations_({.owner = LeaseOwner()}, compile_, *store_),
      kept_programs_(compile_, devices_),
      roofs_(*graph_compiler_, compile_),
      measured_speeds_(*store_),
      sessions_(SessionOptionsOf(config), total_, task_pool_),
      task_pool_(RunThreads(),
                 {.all = static_cast<size_t>(config.limits_waiting()),
                  .of_peer = static_cast<size_t>(config.limits_peer_waiting()),
                  .of_flow = static_cast<size_t>(config.limits_flow_waiting())},
                 RunningLimits()),
      long_runs_(RunThreads(), {}, RunningLimits(), devices::ThreadPriority::kBackground),
      makings_(kMakingThreads, SIZE_MAX),
      gauges_({.store = *store_,
               .devices = devices_,
               .client_bytes = total_,
               .failures = failures_,
               .sessions = sessions_,
               .maybe_workers = workers_.get(),
               .maybe_forks = forks_,
               .pools = Pools(),
               .also = [this] { Publish(GetReadiness(false)); }}) {
  cache_operator_.set_pinned_percent(config.cache_pinned_percent());
  total_.set_reclaim([this] { return sessions_.Reclaim(); });
}

Engine::~Engine() { Drain(std::chrono::steady_clock::time_point::max()); }

void Engine::Reload(const Config& config) {
  session_bytes_ = config.limits_session_bytes();
  kept_bytes_ = config.limits_session_kept_bytes();
  run_ms_ = config.limits_run_ms().count();
  debug_ = static_cast<int>(config.debug_level());
  beam_ = static_cast<int>(config.tune_beam());
  store_->SetMaxBytes(config.cache_max_bytes());
  cache_operator_.set_pinned_percent(config.cache_pinned_percent());
  stream_idle_ms_ = config.limits_stream_idle_ms().count();
  slow_ns_ = std::chrono::nanoseconds(config.log_slow_ms()).count();
  drain_timeout_ms_ = config.server_drain_timeout_ms().count();
  peer_rates_.set_per_second(config.limits_peer_requests_per_s());
  total_.set_limit(config.limits_total_bytes());
  sessions_.set_options(SessionOptionsOf(config));
  const MutexLock lock(settings_mu_);
  TakeReloadable(config, settings_);
}

absl::Status Engine::ReloadTenants(const Config& config) {
  auto tenants = std::make_shared<Tenants>();
  if (!token_file_.empty()) {
    auto read = Tenants::Read(token_file_);
    if (!read.ok()) return WithFrame(read.status(), "reading setting server.token_file");
    *tenants = *std::move(read);
  }
  const absl::Status operators =
      config.About("server.operators", tenants->SetOperators(config.server_operators()));
  // The first fault of a tenant is then an increase.
  if (tenants->names().size() <= TenantUse::kShown) {
    for (const std::string& name : tenants->names()) metrics::TenantFaults({name});
  }
  MutexLock lock(tenants_mu_);
  if (!operators.ok() && tenants_ != nullptr) tenants->KeepOperatorsOf(*tenants_);
  if (tenants_ != nullptr && *tenants == *tenants_) return operators;
  tenants_ = std::move(tenants);
  tenants_version_.fetch_add(1, std::memory_order_acq_rel);
  return operators;
}

absl::StatusOr<Work> Engine::Begin() {
  // Count first, then look at draining_: so either Drain sees this request, or this request sees
  // Drain.
  working_.fetch_add(1);
  Work work(this);
  if (draining_.load()) return ShuttingDown();
  return work;
}

void Engine::EndWork() {
  if (working_.fetch_sub(1) != 1 || !draining_.load()) return;
  MutexLock lock(drain_mu_);
  drained_.notify_all();
}

Engine::Drained Engine::Drain(std::chrono::steady_clock::time_point deadline) {
  Leave();
  draining_.store(true);
  tune_operations_.Stop();
  compile_.StopTuning();
  compile_.StopUpgrades();
  const bool done = AwaitWork(deadline);
  Drained out;
  if (!done) {
    out = {std::max<int64_t>(working_.load(), 1), sessions_.in_use()};
  }
  compile_.StopCompiling();
  if (!done) {
    watch_.StopAll();
    AwaitWork(std::chrono::steady_clock::now() + kStopTime);
  }
  return out;
}

bool Engine::AwaitWork(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(drain_mu_);
  // Limit the deadline: a distant one overflows when the library converts it to the system's clock.
  deadline = std::min(deadline, std::chrono::steady_clock::now() + std::chrono::hours(24));
  return lock.WaitUntil(drained_, deadline, [this] { return working_.load() == 0; });
}

std::vector<std::pair<std::string, bool>> Engine::ReadyDevices(bool reopen) {
  NoteLosses();
  std::vector<devices::DeviceEntry> missing = devices_.NotReady();
  if (reopen) {
    std::erase_if(missing, [&](const devices::DeviceEntry& entry) {
      const auto device = devices_.Get(entry.name);
      return device.ok() && (*device)->device().status().ok();
    });
  }
  std::vector<std::pair<std::string, bool>> out;
  for (const std::string& name : devices_.names()) {
    const bool ready = std::ranges::none_of(
        missing, [&](const devices::DeviceEntry& entry) { return entry.name == name; });
    out.emplace_back(name, ready && !devices_.CompilesOnly(name));
  }
  return out;
}

}  // namespace uopd::engine
