// SPDX-License-Identifier: MIT
// How a daemon is, on one page: for operators. Plain data; Health::Status gathers it, without
// opening a device or asking a disk.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cache/base/admin.h"
#include "core/base/config/config.h"
#include "devices/api/device.h"
#include "server/engine/operate/cluster_status.h"
#include "server/worker/supervisor.h"

namespace uopd::engine {

enum class DaemonState : uint8_t {
  kReady,
  kDegraded,  // requests are served, and something is not as it should be
  kNotReady,
  kDraining,
};
const char* Name(DaemonState state);  // "not_ready"

enum class DeviceReadiness : uint8_t {
  kReady,
  kNotReady,
  kNotOpened,  // nobody has asked for it yet
  kCompileOnly,
};
const char* Name(DeviceReadiness readiness);

struct DaemonStatus {
  struct Device {
    std::string name;
    DeviceReadiness readiness = DeviceReadiness::kNotOpened;
    std::string reason;
    devices::MemoryStats memory;
  };
  // Constants that are kept by their contents, for all sessions.
  struct Contents {
    int64_t memory_bytes = 0, used_bytes = 0, most_memory_bytes = 0;
    int64_t disk_bytes = 0, most_disk_bytes = 0;
    size_t memory_contents = 0, disk_contents = 0;
  };
  struct Pool {
    std::string name;
    size_t waiting = 0;
    int busy = 0, threads = 0;
  };

  DaemonState state = DaemonState::kReady;
  std::vector<std::string> reasons;  // why it is not kReady
  int64_t started_us = 0;            // since the epoch
  std::vector<Device> devices;
  size_t sessions = 0, most_sessions = 0;
  std::vector<Pool> pools;
  int64_t client_bytes = 0, most_client_bytes = 0, resident_bytes = 0;
  cache::Health cache;
  int64_t cache_bytes = 0, most_cache_bytes = 0;
  Contents contents;
  ClusterStatus cluster;
  std::map<std::string, worker::SupervisorStats> workers;
  std::map<std::string, uint64_t> quarantined;  // by pool
  size_t recent_failures = 0;
};

// A setting as it is in effect: one that needs a restart has the value of the start, whatever was
// read since.
struct SettingView {
  std::string_view key;
  std::string value;
  ConfigSource source = ConfigSource::kDefault;
  std::string default_value;
  bool reloadable = false;
};

// The settings of a start, and what a reload has changed of them.
std::vector<SettingView> ViewsOf(const Config& config);
void TakeReloadable(const Config& config, std::vector<SettingView>& views);

}  // namespace uopd::engine
