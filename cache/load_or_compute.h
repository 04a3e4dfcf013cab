// SPDX-License-Identifier: MIT
// Reads bytes by key from the cache, or computes them once and puts them there: Get, single flight,
// lease and Put in the right order.
//
// Within a process one caller computes and the others wait. With a lease, the same is true across
// the processes that share the store: the others watch for the value, and take over when the owner
// dies. The lease is renewed as long as the computation takes. If the lease is lost nevertheless,
// the computation is cancelled and the load waits for the value of the new owner. Nobody waits for
// ever: an owner that never ends, or a server that lies about leases, costs a load its patience,
// and then it computes. A store that fails never makes the request fail: the value is computed
// instead. Errors of `compute` go to the current waiters and are not kept.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cache/base/wait/single_flight.h"
#include "cache/store.h"
#include "core/base/work_limits.h"

namespace uopd::cache {

enum class LoadOutcome { kMemoryHit, kDiskHit, kClusterHit, kComputed, kWaited };
const char* Name(LoadOutcome outcome);

struct Loaded {
  std::shared_ptr<const std::string> bytes;
  LoadOutcome outcome = LoadOutcome::kComputed;
  int64_t cost_us = 0;                    // time it took to compute the bytes, now or earlier
  GetOutcome lookup = GetOutcome::kMiss;  // outcome of the first lookup, e.g. kCorrupt
};

// How a load uses the store.
enum class Use {
  kReadAndKeep,
  kReplace,  // computes even if there is a value, and puts the new value in its place
  kNone,     // computes; the store is neither read nor written
};

struct LoadOptions {
  WorkLimits limits;
  // Positive: take a lease with this time to live. Other processes wait this long if the owner
  // dies.
  int64_t lease_ttl_us = 0;
  std::string owner;  // readable name of the owner of the lease
  // Whether to wait while this owner holds the lease. If not, the load ends with ABORTED, so that
  // the caller can do something else first. Null: waits for everybody.
  std::function<bool(std::string_view holder)> waits_for;
  // How long to wait for other processes, all waits together. Then the value is computed here,
  // without a lease. After waits in vain those that follow are shorter (Patience).
  std::chrono::microseconds patience = std::chrono::minutes(2);
  // Nobody's request waits for the load: it may ask a shared server that is too slow for requests.
  bool patient = false;
  // Asked before each try to take a lease. Its failure ends the load, so that nothing is computed
  // now. Null: always OK.
  std::function<absl::Status()> may_compute;
  // Ends the computation when its lease could not be renewed for its whole time to live, because
  // somebody else may hold it then. Otherwise a lease whose state is not known counts as held.
  bool strict_lease = false;
  Use use = Use::kReadAndKeep;
};

// Flights in progress. One LoadGroup per store, shared by all who load from that store.
class LoadGroup {
 public:
  // Its argument is the limits of all callers together (single_flight.h).
  using Compute = std::function<absl::StatusOr<std::string>(const WorkLimits&)>;

  absl::StatusOr<Loaded> LoadOrCompute(Store& store, const Key& key, const LoadOptions& options,
                                       const Compute& compute);

 private:
  SingleFlight<Loaded> flights_;
  SingleFlight<Loaded> anew_;  // loads that must compute, so they join no flight that may read
};

}  // namespace uopd::cache
