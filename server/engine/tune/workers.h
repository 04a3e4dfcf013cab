// SPDX-License-Identifier: MIT
// The worker processes of the daemon: three pools, by what may hold up whom.
//
//   compile  the kernels that requests wait for; at most compile.threads, forked when needed; nice
//            5, so that prepared work that runs in the daemon comes first
//   tuning   candidates of tuning, tune.workers of them, nice 10: requests come first
//   measure  one process, nice 10, that runs candidates: two would disturb each other's times
//
// The quarantines of the last two outlive the daemon. That of the first does not: a compiler that
// took too long on a busy day must not refuse a graph for ever.
//
// Thread-safe. Fork server and store outlive it, and no job runs when it is destroyed.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/config.h"
#include "server/engine/tune/quarantine_store.h"
#include "server/worker/supervisor.h"
#include "server/worker/worker_measurer.h"

namespace uopd::engine {

class Workers {
 public:
  // `compilers`: how many kernels compile at the same time.
  Workers(worker::ForkServer& forks, const Config& config, int compilers, cache::Store& store);

  worker::Supervisor& compile() { return compile_; }
  worker::WorkerPools tuning() { return {tuning_, measure_}; }

  struct Quarantined {
    std::string pool;
    worker::QuarantineEntry entry;
  };
  // By pool, the oldest first.
  std::vector<Quarantined> ListQuarantine();
  // Takes out the job whose id in hexadecimal starts with `id`, or all of them when that is empty;
  // says how many. NOT_FOUND; INVALID_ARGUMENT when several ids start so, or none can. Other
  // daemons on the same store keep what they have loaded.
  absl::StatusOr<size_t> ClearQuarantine(std::string_view id);

 private:
  struct Pool {
    const char* name;
    worker::Supervisor* workers;
    QuarantineStore* store;  // null: not kept
  };
  std::array<Pool, 3> Pools();

  QuarantineStore tuning_quarantine_, measure_quarantine_;
  worker::Supervisor compile_, tuning_, measure_;
};

}  // namespace uopd::engine
