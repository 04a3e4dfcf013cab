// SPDX-License-Identifier: MIT
#include "server/daemon.h"

#include <filesystem>

#include "cache/store.h"
#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/engine/compile/source/core_compiler.h"
#include "server/net/address.h"
#include "server/open_cluster.h"

namespace uopd {
namespace {

// A start waits at most this long for the fork server, so that a daemon that serves is ready.
constexpr std::chrono::seconds kForkServerLimit{10};

void ShowCacheState(const cache::Health& health) {
  using cache::State;
  for (State state : {State::kOk, State::kRecovered, State::kReadOnly, State::kMemory}) {
    metrics::CacheState({"kernel", cache::Name(state)}).Set(state == health.state ? 1 : 0);
  }
  if (health.state == State::kOk) {
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
    if (cluster != nullptr) {
      return Invalid("setting cache.cluster needs a cache on disk: cache.level must be 1 or 2");
    }
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

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const Config& config,
                                                      worker::ForkServer& forks) {
  std::unique_ptr<Daemon> daemon(new Daemon(config));
  UOPD_TRY(daemon->StartServing(forks));
  return daemon;
}

absl::Status Daemon::StartServing(worker::ForkServer& forks) {
  MakePrivateFolder(config_.server_data_dir());
  UOPD_ASSIGN(auto registry, OpenDevices(config_));
  UOPD_ASSIGN(auto store, OpenCache(config_));
  UOPD_ASSIGN(engine_, engine::Engine::Create(config_, std::make_unique<engine::CoreCompiler>(),
                                              std::move(store), std::move(registry), &forks));
  UOPD_ASSIGN(engine::BundleKeys keys, ReadSealKeys(config_));
  engine_->set_bundle_keys(std::move(keys));
  const auto limit = std::chrono::steady_clock::now() + kForkServerLimit;
  if (absl::Status status = forks.AwaitUp({limit, nullptr}); !status.ok()) {
    UOPD_LOG(kError, "serving without workers", {"status", forks.Unready()});
  }
  UOPD_ASSIGN(rpc_, rpc::Server::Start(*engine_, config_));
  std::string http_address;
  if (!config_.server_http_listen().empty()) {
    auto listen = net::ParseAddress(config_.server_http_listen());
    if (!listen.ok()) return WithFrame(listen.status(), "reading setting server.http_listen");
    if (!IsLocal(*listen) && !config_.server_allow_insecure_remote()) {
      return absl::InvalidArgumentError(
          Cat("setting server.http_listen (", config_.server_http_listen(),
              ") can be reached from other machines; server.allow_insecure_remote permits it"));
    }
    UOPD_ASSIGN(http_,
                http::HttpServer::Start(config_.server_http_listen(), [engine = engine_.get()] {
                  return http::Readiness{engine->Unready(), engine->DevicesNotReady()};
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
}

void Daemon::End(const std::function<void(const char* part)>& begin) {
  rpc_->SetNotServing();
  const bool done =
      engine_->Drain(std::chrono::steady_clock::now() + config_.server_drain_timeout_ms());
  UOPD_LOG(kInfo, "drained", {"all_finished", done});
  begin("connections");
  ready_.Remove();  // before another daemon can take the addresses
  // The calls that are open now are idle, or the daemon has given up on them.
  rpc_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(done ? 200 : 0));
  begin("HTTP");
  http_ = nullptr;
  begin("gRPC");
  rpc_ = nullptr;
  begin("engine");
  engine_ = nullptr;
}

}  // namespace uopd
