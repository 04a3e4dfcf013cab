// SPDX-License-Identifier: MIT
// Writes the state of the engine into the metrics, every second: what is counted elsewhere by other
// means, or exists only as a size. So a scrape waits for nothing: no lock of the engine, no disk.
//
// The cache's file is asked every five seconds, and less often where that takes long.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cache/store.h"
#include "core/base/mutex.h"
#include "server/engine/base/device_set.h"
#include "server/engine/base/recent_failures.h"
#include "server/engine/base/task_pool.h"
#include "server/engine/cache_gauges.h"
#include "server/engine/session/quota.h"
#include "server/engine/session/session_table.h"
#include "server/engine/tune/workers.h"
#include "server/engine/usage/process_usage.h"

namespace uopd::engine {

class Gauges {
 public:
  // Outlive this object.
  struct Sources {
    cache::Store& store;
    DeviceSet& devices;
    const Quota& client_bytes;
    RecentFailures& failures;
    const SessionTable& sessions;
    Workers* maybe_workers;                 // null: none
    const worker::ForkServer* maybe_forks;  // null: none
    NamedPools pools;
    std::function<void()> also;  // writes what only the engine knows; called by the thread alone
  };

  explicit Gauges(Sources sources);
  ~Gauges();
  Gauges(const Gauges&) = delete;
  Gauges& operator=(const Gauges&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  void Loop() UOPD_EXCLUDES(mu_);
  void Publish();
  void PublishCache();
  void PublishWorkers();
  void PublishTenants();

  const Sources sources_;
  // Used by the thread only.
  Clock::time_point next_usage_;
  CacheGauges cache_;
  ProcessUsage processes_;
  std::map<std::string, SessionTable::TenantShare> tenants_;  // all that had sessions
  Mutex mu_;
  std::condition_variable changed_;
  bool ending_ UOPD_GUARDED_BY(mu_) = false;
  std::thread thread_;  // declared last: it uses the other members
};

}  // namespace uopd::engine
