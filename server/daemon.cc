// SPDX-License-Identifier: MIT
#include "server/daemon.h"

#include <algorithm>
#include <filesystem>
#include <thread>

#include "cache/store.h"
#include "core/base/config/budget.h"
#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/engine/compile/source/core_compiler.h"
#include "server/open_cluster.h"

namespace uopd {
namespace {

// A start waits at most this long for the fork server, so that a daemon that serves is ready.
constexpr std::chrono::seconds kForkServerLimit{10};
// So long clients that are connected may still hear why their calls are refused, once all requests
// are done.
constexpr std::chrono::milliseconds kFarewell{200};
// If something was still on the way to a client at the end of the requests, clients then have so
// long to read what has come to their systems. gRPC ends each connection as soon as its client has
// read everything.
constexpr std::chrono::seconds kReading{2};

void ShowCacheState(const cache::Health& health) {
  using cache::State;
  for (State state : {State::kOk, State::kRecovered, State::kReadOnly, State::kMemory}) {
    metrics::CacheState({"kernel", cache::Name(state)}).Set(state == health.state ? 1 : 0);
  }
  if (health.state == State::kOk && health.fault == cache::Fault::kNone) {
    UOPD_LOG(kInfo, "cache", {"state", cache::Name(health.state)}, {"reason", health.reason});
  } else {
    UOPD_LOG(kWarn, "cache", {"state", cache::Name(health.state)}, {"reason", health.reason});
  }
}

// Makes a folder that only this user can read; a folder that was given to a group stays readable
// for the group. If the folder cannot be made, the cache is in memory, and the cache reports that.
void MakePrivateFolder(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(path, error);
  fs::permissions(path, fs::perms::others_all, fs::perm_options::remove, error);
}

absl::StatusOr<std::unique_ptr<cache::Store>> OpenCache(const Config& config) {
  UOPD_ASSIGN(std::unique_ptr<cache::Cluster> cluster, OpenCluster(config));
  if (config.cache_level() == 0) {
    auto store = std::make_unique<cache::Store>(config.cache_max_bytes());
    ShowCacheState(store->health());
    return store;
  }
  cache::StoreOptions options;
  options.folder = config.server_data_dir();
  options.max_bytes = config.cache_max_bytes();
  options.file.read_only = config.cache_read_only();
  options.on_change = ShowCacheState;
  options.on_lease_failure = [](const std::string& reason) {
    UOPD_LOG(kWarn, "cache leases hold within this process only", {"reason", reason});
  };
  auto store = cache::Store::Open(std::move(options), std::move(cluster));
  ShowCacheState(store->health());
  return store;
}

absl::StatusOr<std::unique_ptr<devices::Registry>> OpenDevices(const Config& config) {
  devices::RegistryOptions options;
  options.devices = config.device_list();
  options.cpu_threads = static_cast<int>(config.device_cpu_threads());
  options.cpu_features = config.device_cpu_features();
  options.compile_only = config.device_compile_only();
  options.cuda_ptx = config.device_cuda_ptx();
  options.cuda_specific = config.device_cuda_specific();
  options.cuda_graphs = config.device_cuda_graphs();
  options.hip_graphs = config.device_hip_graphs();
  options.hip_rtc = config.device_hip_rtc();
  options.force_async_us = static_cast<int>(config.device_force_async_us());
  options.memory_limit_bytes = static_cast<size_t>(config.limits_total_bytes());
  if (const int64_t pattern = config.device_memory_pattern(); pattern >= 0)
    options.memory_pattern = devices::PatternOf(static_cast<std::byte>(pattern));
  return devices::Registry::Create(std::move(options));
}

// What the process may use of the machine, and what follows from that.
void LogLimits(const Config& config) {
  const ControlGroups groups = ControlGroups::Find();
  const ProcessLimits limits = ProcessLimits::Read(groups);
  const MemoryBudget budget = BudgetOf(config, limits);
  UOPD_LOG(
      kInfo, "limits", {"memory", limits.MemoryText()}, {"processors", limits.ProcessorsText()},
      {"clients", BytesText(config.limits_total_bytes())},
      {"workers", BytesText(budget.workers_bytes)}, {"compile_threads", config.compile_threads()});
  if (config.limits_total_bytes() > budget.clients_bytes) {
    UOPD_LOG(kWarn, "limits.total_bytes is more than the memory that is left for clients",
             {"limits.total_bytes", BytesText(config.limits_total_bytes())},
             {"memory", limits.MemoryText()}, {"left", BytesText(budget.clients_bytes)});
  }
  if (groups.KillsTogether()) {
    UOPD_LOG(
        kWarn,
        "when a worker runs out of memory, the kernel will kill the daemon too: memory.oom.group "
        "of its control group is 1");
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const Config& config, Listeners listeners,
                                                      worker::ForkServer& forks) {
  std::unique_ptr<Daemon> daemon(new Daemon(config));
  UOPD_TRY(daemon->StartServing(std::move(listeners), forks));
  return daemon;
}

absl::Status Daemon::StartServing(Listeners listeners, worker::ForkServer& forks) {
  LogLimits(config_);
  MakePrivateFolder(config_.server_data_dir());
  UOPD_ASSIGN(auto registry, OpenDevices(config_));
  UOPD_ASSIGN(auto store, OpenCache(config_));
  UOPD_ASSIGN(engine_, engine::Engine::Create(config_, std::make_unique<engine::CoreCompiler>(),
                                              std::move(store), std::move(registry), &forks));
  UOPD_ASSIGN(engine::BundleKeys keys, ReadSealKeys(config_));
  engine_->operate().bundle_keys = std::move(keys);
  const auto limit = std::chrono::steady_clock::now() + kForkServerLimit;
  if (absl::Status status = forks.AwaitUp({limit, nullptr}); !status.ok()) {
    UOPD_LOG(kError, "serving without workers", {"status", forks.Unready()});
  }
  Publish(engine_->health().GetReadiness(false));  // what the first scrape sees
  UOPD_ASSIGN(rpc_, rpc::Server::Start(*engine_, config_, std::move(listeners.rpc)));
  std::string http_address;
  if (listeners.maybe_http != nullptr) {
    UOPD_ASSIGN(http_,
                http::HttpServer::Start(std::move(listeners.maybe_http), [engine = engine_.get()] {
                  const engine::Readiness now = engine->health().GetReadiness(true);
                  const std::string degraded = Texts(now.degraded, "\n");
                  return http::Readiness{Texts(now.not_ready, "; "),
                                         degraded.empty() ? "" : degraded + "\n"};
                }));
    http_address = http_->address();
  }
  if (!config_.server_ready_file().empty()) {
    UOPD_TRY(ready_.Write(config_.server_ready_file(), rpc_->address(), http_address));
  }
  metrics::BuildInfo({UOPD_VERSION}).Set(1);
  UOPD_LOG(kInfo, "serving", {"version", UOPD_VERSION}, {"listen", rpc_->address()},
           {"http", http_address}, {"data_dir", config_.server_data_dir()});
  return absl::OkStatus();
}

void Daemon::Reload(const Config& config) {
  for (const std::string& key : config.FixedChanges(config_)) {
    UOPD_LOG(kWarn, "setting needs a restart", {"key", key});
  }
  config_ = config;
  engine_->Reload(config_);
  UOPD_LOG(kInfo, "settings reloaded");
}

void Daemon::ReloadTenants() {
  if (const absl::Status status = engine_->tenants().Reload(config_); !status.ok()) {
    UOPD_LOG(kError, "not all tokens and operators are as the settings say", {"status", status});
  }
}

std::string Daemon::Serving() const {
  return Cat("serving gRPC at ", rpc_->address(),
             http_ != nullptr ? Cat(", HTTP at ", http_->address()) : std::string());
}

void Daemon::Touch() const { (void)engine_->health().GetReadiness(false); }

bool Daemon::End(const std::function<void(const char* part)>& begin) {
  engine_->gate().Leave();
  rpc_->SetNotServing();
  if (const auto delay = config_.server_drain_delay_ms(); delay.count() > 0) {
    UOPD_LOG(kInfo, "still serving, until load balancers send nothing more", {"ms", delay.count()});
    std::this_thread::sleep_for(delay);
  }
  const auto deadline = std::chrono::steady_clock::now() + config_.server_drain_timeout_ms();
  const engine::Engine::Drained cut = engine_->Drain(deadline);
  const bool done = static_cast<bool>(cut);
  if (done) {
    UOPD_LOG(kInfo, "drained");
  } else {
    UOPD_LOG(kWarn, "the drain was cut short by server.drain_timeout_ms",
             {"requests", cut.requests}, {"sessions", cut.sessions},
             {"ms", config_.server_drain_timeout_ms().count()});
  }
  ready_.Remove();  // before another daemon can take the addresses
  if (done) {
    const bool reading = rpc_->AwaitConfirmed(deadline);
    const auto until = std::chrono::steady_clock::now() + kFarewell;
    while (metrics::Connections().value() > 0 && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const auto left = std::min<std::chrono::steady_clock::duration>(
        kReading, deadline - std::chrono::steady_clock::now());
    if (reading && left.count() > 0) {
      rpc_->Shutdown(std::chrono::system_clock::now() +
                     std::chrono::duration_cast<std::chrono::milliseconds>(left));
    }
  }
  begin("connections");  // after the time of the clients, which is not logged as slow
  // The calls that are open now are idle, or the daemon has given up on them.
  rpc_->Shutdown(std::chrono::system_clock::now());
  begin("HTTP");
  http_ = nullptr;
  begin("gRPC");
  rpc_ = nullptr;
  begin("engine");
  engine_ = nullptr;
  return done;
}

}  // namespace uopd
