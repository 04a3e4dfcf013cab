// SPDX-License-Identifier: MIT
// Bytes by key from the cache, or computed once and kept: Get, single flight, lease and Put in the
// right order.
//
// Within a process one caller computes and the others wait. With a lease that also holds across the
// processes that share the store: the others watch for the value, and take over when the owner
// dies. The lease is renewed for as long as the computation takes; a computation whose lease was
// lost all the same is cancelled, and the new owner's value is awaited. A store that fails never
// fails the request: then the value is computed. Errors of `compute` go to the current waiters and
// are not kept.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cache/base/single_flight.h"
#include "cache/store.h"

namespace uopd::cache {

enum class LoadOutcome { kMemoryHit, kDiskHit, kComputed, kWaited };
const char* Name(LoadOutcome outcome);

struct Loaded {
  std::shared_ptr<const std::string> bytes;
  LoadOutcome outcome = LoadOutcome::kComputed;
  int64_t cost_us = 0;                    // of producing the bytes, whenever that was
  GetOutcome lookup = GetOutcome::kMiss;  // of the first lookup, e.g. kCorrupt
};

// How a load uses the store.
enum class Use {
  kReadAndKeep,
  kReplace,  // computes although there is a value, and puts the new one in its place
  kNone,     // computes; the store is neither read nor written
};

struct LoadOptions {
  WaitLimits limits;
  // Positive: take a lease for that long, which is also how long others wait for a process that
  // died.
  int64_t lease_ttl_us = 0;
  std::string owner;  // who holds the lease, for people to read
  Use use = Use::kReadAndKeep;
};

// Flights in progress; one per store, shared by all who load from it.
class LoadGroup {
 public:
  // Is given the limits of all who wait for it (single_flight.h).
  using Compute = std::function<absl::StatusOr<std::string>(const WaitLimits&)>;

  absl::StatusOr<Loaded> LoadOrCompute(Store& store, const Key& key, const LoadOptions& options,
                                       const Compute& compute);

 private:
  SingleFlight<Loaded> flights_;
  SingleFlight<Loaded> anew_;  // of loads that must not join a flight which may find a value
};

}  // namespace uopd::cache
