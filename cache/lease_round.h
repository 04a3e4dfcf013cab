// SPDX-License-Identifier: MIT
// A round of a load under a lease: asks for the lease and says what is to be done. Nothing here
// computes, and nothing waits for another owner: LoadGroup (load_or_compute.h) does so with
// threads, a simulation with events.
#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "cache/load_or_compute.h"

namespace uopd::cache {

enum class RoundStep {
  kFound,      // the owner before had put the value; its lease is free again
  kCompute,    // the lease is this owner's: compute and PutFenced, or ReleaseLease
  kAwait,      // somebody computes: wait until WatchReady says more, then begin another round
  kElsewhere,  // somebody computes for whom this load does not wait (LoadOptions::waits_for)
  kAlone,      // no lease is to be had: compute and Put
};

struct Round {
  RoundStep step = RoundStep::kAlone;
  int64_t token = 0;   // kCompute
  GetResult found;     // kFound
  std::string holder;  // kElsewhere
};

// A value that exists but cannot be read, or a lease that is lost again and again, would make a
// load endless. After this many rounds it computes without a lease.
inline constexpr int kMaxRounds = 8;

// REQUIRES: options.lease_ttl_us > 0. Fails as options.may_compute does.
absl::StatusOr<Round> BeginRound(Store& store, const Key& key, const LoadOptions& options);

}  // namespace uopd::cache
