// SPDX-License-Identifier: MIT
#include "cache/base/lease_keeper.h"

#include <algorithm>

#include "core/base/telemetry/metrics.h"

namespace uopd::cache {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point NextRenewal(int64_t ttl_us) {
  return Clock::now() + std::chrono::microseconds(ttl_us / 3);
}

}  // namespace

LeaseKeeper::Scope::Scope(LeaseKeeper& keeper, const Digest& address, int64_t token, int64_t ttl_us,
                          bool strict)
    : keeper_(keeper) {
  if (token == 0) return;
  lease_.reset(new Lease{address, token, ttl_us, strict, NextRenewal(ttl_us),
                         Clock::now() + std::chrono::microseconds(ttl_us)});
  keeper_.Add(lease_);
}

LeaseKeeper::Scope::~Scope() {
  if (lease_ != nullptr) keeper_.Remove(lease_);
}

LeaseKeeper::~LeaseKeeper() {
  std::thread thread;
  {
    MutexLock lock(mu_);
    stop_ = true;
    thread.swap(thread_);
  }
  changed_.notify_all();
  if (thread.joinable()) thread.join();
}

void LeaseKeeper::Add(const std::shared_ptr<Lease>& lease) {
  {
    MutexLock lock(mu_);
    kept_.push_back(lease);
    metrics::LeasesHeld().Add(1);
    ++additions_;
    if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  }
  changed_.notify_all();
}

void LeaseKeeper::Remove(const std::shared_ptr<Lease>& lease) {
  MutexLock lock(mu_);
  metrics::LeasesHeld().Add(-static_cast<double>(std::erase(kept_, lease)));
}

void LeaseKeeper::Loop() {
  for (;;) {
    std::vector<std::shared_ptr<Lease>> due;
    {
      MutexLock lock(mu_);
      if (stop_) return;
      auto next = Clock::now() + std::chrono::hours(1);
      for (const auto& lease : kept_) next = std::min(next, lease->due);
      const uint64_t seen = additions_;
      lock.WaitUntil(changed_, next,
                     [&]() UOPD_REQUIRES(mu_) { return stop_ || additions_ != seen; });
      const auto now = Clock::now();
      for (const auto& lease : kept_) {
        if (lease->due <= now && !lease->lost.load()) due.push_back(lease);
        if (lease->due <= now) lease->due = NextRenewal(lease->ttl_us);
      }
    }
    // The scope of a lease may have ended meanwhile. Renewing is harmless then: a released lease
    // stays released.
    for (const auto& lease : due) {
      const auto asked = Clock::now();
      const absl::Status renewed = leases_.Renew(lease->address, lease->token, lease->ttl_us);
      if (renewed.ok()) lease->ends = asked + std::chrono::microseconds(lease->ttl_us);
      // UNAVAILABLE says nothing about the lease: the next renewal asks again.
      if (absl::IsAborted(renewed) || (lease->strict && Clock::now() >= lease->ends)) {
        lease->lost.store(true);
        metrics::LeasesLost().Increment();
      }
    }
  }
}

}  // namespace uopd::cache
