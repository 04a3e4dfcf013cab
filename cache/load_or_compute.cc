// SPDX-License-Identifier: MIT
#include "cache/load_or_compute.h"

#include "core/base/status.h"

namespace uopd::cache {
namespace {

Loaded FromEntry(GetResult found, GetOutcome lookup) {
  return {
      .bytes = std::make_shared<const std::string>(std::move(found.entry.bytes)),
      .outcome = found.source == Source::kMemory ? LoadOutcome::kMemoryHit : LoadOutcome::kDiskHit,
      .cost_us = found.entry.cost_us,
      .lookup = lookup};
}

// `token` is the lease to put under, 0 without one.
absl::StatusOr<Loaded> ComputeAndKeep(Store& store, const Key& key, GetOutcome lookup,
                                      int64_t token, const WaitLimits& limits,
                                      const LoadGroup::Compute& compute) {
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<std::string> bytes = compute(limits);
  if (!bytes.ok()) {
    if (token != 0) store.ReleaseLease(key, token).IgnoreError();  // else it ends by itself
    return bytes.status();
  }
  const int64_t cost_us = std::chrono::duration_cast<std::chrono::microseconds>(
                              std::chrono::steady_clock::now() - start)
                              .count();
  Loaded loaded{.bytes = std::make_shared<const std::string>(*std::move(bytes)),
                .outcome = LoadOutcome::kComputed,
                .cost_us = cost_us,
                .lookup = lookup};
  if (token == 0) {
    store.Put(key, *loaded.bytes, cost_us).IgnoreError();  // counted by the store
    return loaded;
  }
  const absl::Status kept = store.PutFenced(key, *loaded.bytes, cost_us, token);
  if (absl::IsAborted(kept)) {
    // Somebody took over and decides the value; all should return the same.
    if (GetResult found = store.Get(key); found.hit()) return FromEntry(std::move(found), lookup);
    return loaded;
  }
  store.ReleaseLease(key, token).IgnoreError();
  return loaded;
}

absl::StatusOr<Loaded> LeaseAndCompute(Store& store, const Key& key, GetOutcome lookup,
                                       const LoadOptions& options,
                                       const LoadGroup::Compute& compute) {
  // A value that is there but cannot be read would send us round for ever: after this many, compute
  // without a lease.
  constexpr int kMaxUnreadable = 3;
  for (int unreadable = 0; unreadable < kMaxUnreadable;) {
    const LeaseResult lease = store.TryLease(key, options.owner, options.lease_ttl_us);
    if (lease.outcome == LeaseOutcome::kUnavailable) break;
    if (lease.granted()) {
      // The one before us may have finished between our lookup and now.
      if (GetResult found = store.Get(key); found.hit()) {
        store.ReleaseLease(key, lease.token).IgnoreError();
        return FromEntry(std::move(found), lookup);
      }
      return ComputeAndKeep(store, key, lookup, lease.token, options.limits, compute);
    }
    switch (store.WatchReady(key, options.limits)) {
      case WatchOutcome::kReady:
        if (GetResult found = store.Get(key); found.hit()) {
          Loaded loaded = FromEntry(std::move(found), lookup);
          loaded.outcome = LoadOutcome::kWaited;
          return loaded;
        }
        ++unreadable;
        break;
      case WatchOutcome::kLeaseFree:
        break;
      case WatchOutcome::kDeadlineExceeded:
        return absl::DeadlineExceededError("The deadline passed while another process computed.");
      case WatchOutcome::kCancelled:
        return absl::CancelledError("The request was cancelled while another process computed.");
    }
  }
  return ComputeAndKeep(store, key, lookup, 0, options.limits, compute);
}

}  // namespace

const char* Name(LoadOutcome outcome) {
  switch (outcome) {
    case LoadOutcome::kMemoryHit:
      return "memory_hit";
    case LoadOutcome::kDiskHit:
      return "disk_hit";
    case LoadOutcome::kComputed:
      return "computed";
    case LoadOutcome::kWaited:
      return "waited";
  }
  UOPD_CHECK(false);
}

absl::StatusOr<Loaded> LoadGroup::LoadOrCompute(Store& store, const Key& key,
                                                const LoadOptions& options,
                                                const Compute& compute) {
  GetResult found = store.Get(key);
  if (found.hit()) return FromEntry(std::move(found), GetOutcome::kHit);
  const GetOutcome lookup = found.outcome;
  auto compute_for_all = [&](const WaitLimits& limits) -> absl::StatusOr<Loaded> {
    // A flight may have landed between our lookup and this one: look again, so that it is not
    // repeated.
    if (GetResult again = store.Get(key); again.hit()) return FromEntry(std::move(again), lookup);
    if (options.lease_ttl_us <= 0) return ComputeAndKeep(store, key, lookup, 0, limits, compute);
    LoadOptions for_all = options;
    for_all.limits = limits;
    return LeaseAndCompute(store, key, lookup, for_all, compute);
  };
  auto result = flights_.Do(key.address(), options.limits, compute_for_all);
  if (!result.value.ok()) return result.value.status();
  Loaded loaded = **result.value;
  if (result.waited) loaded.outcome = LoadOutcome::kWaited;
  return loaded;
}

}  // namespace uopd::cache
