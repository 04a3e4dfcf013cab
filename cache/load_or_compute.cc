// SPDX-License-Identifier: MIT
#include "cache/load_or_compute.h"

#include <algorithm>

#include "cache/lease_round.h"
#include "core/base/status.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/telemetry/trace.h"
#include "core/base/text.h"

namespace uopd::cache {
namespace {

LoadOutcome OutcomeOf(Source source) {
  switch (source) {
    case Source::kMemory:
      return LoadOutcome::kMemoryHit;
    case Source::kCluster:
      return LoadOutcome::kClusterHit;
    case Source::kDisk:
    case Source::kNone:
      break;
  }
  return LoadOutcome::kDiskHit;
}

Loaded FromEntry(GetResult found, GetOutcome lookup) {
  return {.bytes = std::make_shared<const std::string>(std::move(found.entry.bytes)),
          .outcome = OutcomeOf(found.source),
          .cost_us = found.entry.cost_us,
          .lookup = lookup};
}

// One load. It runs on the thread that computes for all callers of the key.
class Load {
 public:
  Load(Store& store, const Key& key, const LoadOptions& options, const LoadGroup::Compute& compute,
       const WorkLimits& limits, GetOutcome lookup)
      : store_(store),
        key_(key),
        options_(options),
        compute_(compute),
        limits_(limits),
        lookup_(lookup) {}

  absl::StatusOr<Loaded> Run() {
    if (options_.lease_ttl_us <= 0 || options_.use == Use::kNone) {
      // Another flight may have put the value after the caller's lookup.
      if (auto found = Find()) return *std::move(found);
      return ComputeAndPut();
    }
    for (int round = 0; round < kMaxRounds && !gave_up_; ++round) {
      UOPD_ASSIGN(Round begun, BeginRound(store_, key_, options_));
      switch (begun.step) {
        case RoundStep::kFound:
          return FromEntry(std::move(begun.found), lookup_);
        case RoundStep::kElsewhere:
          return absl::AbortedError(Cat(begun.holder, " computes the value"));
        case RoundStep::kAlone:
          return ComputeAndPut();
        case RoundStep::kCompute: {
          UOPD_ASSIGN(auto loaded, UnderLease(begun.token));
          if (loaded) return *std::move(loaded);
          break;  // somebody else has the lease now
        }
        case RoundStep::kAwait: {
          UOPD_ASSIGN(auto awaited, Await());
          if (awaited) return *std::move(awaited);
          break;
        }
      }
    }
    return ComputeAndPut();
  }

 private:
  std::optional<Loaded> Find() {
    if (options_.use != Use::kReadAndKeep) return std::nullopt;
    GetResult found = store_.Get(key_, options_.patient);
    if (!found.hit()) return std::nullopt;
    return FromEntry(std::move(found), lookup_);
  }

  Loaded Computed(std::string bytes) const {
    return {.bytes = std::make_shared<const std::string>(std::move(bytes)),
            .outcome = LoadOutcome::kComputed,
            .cost_us = std::chrono::duration_cast<std::chrono::microseconds>(
                           std::chrono::steady_clock::now() - start_)
                           .count(),
            .lookup = lookup_};
  }

  absl::StatusOr<Loaded> ComputeAndPut() {
    start_ = std::chrono::steady_clock::now();
    UOPD_ASSIGN(std::string bytes, compute_(limits_));
    Loaded loaded = Computed(std::move(bytes));
    if (options_.use != Use::kNone) {
      store_.Put(key_, *loaded.bytes, loaded.cost_us).IgnoreError();  // counted by the store
    }
    return loaded;
  }

  // Returns nullopt if the lease was lost before there was a value.
  absl::StatusOr<std::optional<Loaded>> UnderLease(int64_t token) {
    const LeaseKeeper::Scope lease(store_.keeper(), key_.address(), token, options_.lease_ttl_us,
                                   options_.strict_lease);
    const WorkLimits limits = limits_.Or([&] { return lease.lost(); });
    start_ = std::chrono::steady_clock::now();
    absl::StatusOr<std::string> bytes = compute_(limits);
    if (!bytes.ok()) {
      if (lease.lost() && absl::IsCancelled(bytes.status())) return std::nullopt;
      store_.ReleaseLease(key_, token).IgnoreError();  // if this fails, the lease ends by itself
      return bytes.status();
    }
    Loaded loaded = Computed(*std::move(bytes));
    // The store releases the lease as soon as other processes can read the value.
    const absl::Status kept = store_.PutFenced(key_, *loaded.bytes, loaded.cost_us, token);
    if (absl::IsAborted(kept)) {
      // The new owner decides the value, and all loads should return the same value.
      UOPD_ASSIGN(auto awaited, Await());
      if (awaited) return awaited;
      // There is no new owner, or none who puts a value. A value without a lease keeps no other one
      // out.
      store_.Put(key_, *loaded.bytes, loaded.cost_us).IgnoreError();
    }
    return loaded;
  }

  // Waits until the owner of the lease has put a value. Returns nullopt if nobody holds the lease,
  // if the value cannot be read, or if the load has waited long enough (gave_up_).
  absl::StatusOr<std::optional<Loaded>> Await() {
    const int64_t begin_ns = NowNs();
    if (!until_) until_ = SteadyNow() + store_.patience().Of(options_.patience);
    const WorkLimits limits{.deadline = std::min(limits_.deadline, *until_),
                            .cancelled = limits_.cancelled};
    const WatchOutcome watched = store_.WatchReady(key_, limits);
    metrics::LeaseWait({key_.store()}).Observe(static_cast<double>(NowNs() - begin_ns) * 1e-9);
    switch (watched) {
      case WatchOutcome::kReady:
        if (auto found = Find()) {
          store_.patience().GotIt();
          found->outcome = LoadOutcome::kWaited;
          return found;
        }
        return std::nullopt;  // the value exists but cannot be read
      case WatchOutcome::kLeaseFree:
        return std::nullopt;
      case WatchOutcome::kDeadlineExceeded:
        if (*until_ < limits_.deadline) {
          gave_up_ = true;
          store_.patience().WaitedInVain();
          metrics::LeaseWaitsGivenUp({key_.store()}).Increment();
          return std::nullopt;
        }
        return absl::DeadlineExceededError("The deadline passed while another process computed");
      case WatchOutcome::kCancelled:
        return absl::CancelledError("The request was cancelled while another process computed");
    }
    UOPD_CHECK(false);
  }

  Store& store_;
  const Key& key_;
  const LoadOptions& options_;
  const LoadGroup::Compute& compute_;
  const WorkLimits& limits_;
  const GetOutcome lookup_;
  std::chrono::steady_clock::time_point start_;
  std::optional<Deadline> until_;  // of all waits; set by the first
  bool gave_up_ = false;
};

}  // namespace

const char* Name(LoadOutcome outcome) {
  switch (outcome) {
    case LoadOutcome::kMemoryHit:
      return "memory_hit";
    case LoadOutcome::kDiskHit:
      return "disk_hit";
    case LoadOutcome::kClusterHit:
      return "cluster_hit";
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
  GetOutcome lookup = GetOutcome::kMiss;
  const bool reads = options.use == Use::kReadAndKeep;
  if (reads) {
    GetResult found = store.Get(key, options.patient);
    if (found.hit()) return FromEntry(std::move(found), GetOutcome::kHit);
    lookup = found.outcome;
  }
  const int64_t begin_ns = NowNs();
  auto result = (reads ? flights_ : anew_)
                    .Do(key.address(), options.limits,
                        [&](const WorkLimits& limits) -> absl::StatusOr<Loaded> {
                          return Load(store, key, options, compute, limits, lookup).Run();
                        });
  if (result.waited) {
    metrics::FlightWait({key.store()}).Observe(static_cast<double>(NowNs() - begin_ns) * 1e-9);
  }
  if (!result.value.ok()) return result.value.status();
  Loaded loaded = **result.value;
  if (result.waited) loaded.outcome = LoadOutcome::kWaited;
  return loaded;
}

}  // namespace uopd::cache
