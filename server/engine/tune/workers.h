// SPDX-License-Identifier: MIT
// The worker processes of the daemon. They are divided into pools, so that one kind of work cannot
// hold up another:
//
//   compile  the kernels that requests wait for; at most compile.threads processes, forked when
//            needed; nice 5, so that prepared work that runs in the daemon comes first
//   upgrade  kernels that no request waits for; as many processes as compile has; nice 19, because
//            the threads of a run wait for each other
//   tuning   candidates of tuning; tune.workers processes; nice 10, because requests come first
//   measure  one process per device that runs candidates; nice 10. Two processes would disturb each
//            other's times. A process opens only its own device
//
// The quarantines of tuning and measure are kept over restarts of the daemon. Those of
// compile and upgrade are not: a compiler that took too long on a busy day must not refuse a graph
// for ever.
//
// Thread-safe. The fork server and the store outlive it. REQUIRES: no job runs at its destruction.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/config/config.h"
#include "server/engine/tune/quarantine_store.h"
#include "server/worker/supervisor.h"
#include "server/worker/tune/worker_measurer.h"

namespace uopd::engine {

class Workers {
 public:
  // `devices`: the full names of the configured devices. `compilers`: how many kernels are compiled
  // at the same time.
  Workers(worker::ForkServer& forks, const Config& config, std::span<const std::string> devices,
          int compilers, cache::Store& store);

  worker::Supervisor& compile() { return compile_; }
  worker::Supervisor& upgrade() { return upgrade_; }
  // REQUIRES: `device` is the full name of a configured device.
  worker::WorkerPools tuning(std::string_view device);

  // What each pool has done, and its workers now. The pools that measure, one per device, are
  // one pool here.
  std::map<std::string, worker::SupervisorStats> Stats();

  struct Quarantined {
    std::string pool;
    worker::QuarantineEntry entry;
  };
  // The entries by pool, the oldest first.
  std::vector<Quarantined> ListQuarantine();
  // Removes the job whose id (in hexadecimal) starts with `id`; removes all jobs if `id` is empty.
  // Returns how many were removed. NOT_FOUND: no such job. INVALID_ARGUMENT: several ids start with
  // `id`, or `id` is not hexadecimal. Other daemons of the cluster forget the job too; those of the
  // same folder keep the entries that they have loaded.
  absl::StatusOr<size_t> ClearQuarantine(std::string_view id);

 private:
  struct Pool {
    const char* name;
    worker::Supervisor* workers;
    QuarantineStore* store;  // null: the quarantine is not kept
  };
  std::vector<Pool> Pools();

  QuarantineStore tuning_quarantine_, measure_quarantine_;
  worker::Supervisor compile_, upgrade_, tuning_;
  std::vector<std::pair<std::string, std::unique_ptr<worker::Supervisor>>> measure_;  // by device
  std::vector<std::unique_ptr<cache::Arrivals::Subscription>> followed_;  // they use the rest
};

}  // namespace uopd::engine
