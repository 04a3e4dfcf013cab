// SPDX-License-Identifier: MIT
#include "cache/base/lease/lease_keeper.h"

#include <algorithm>

#include "core/base/telemetry/metrics.h"

namespace uopd::cache {

using std::chrono::microseconds;

KeptLease::KeptLease(const Digest& address, int64_t token, int64_t ttl_us, bool strict,
                     Deadline now)
    : address_(address),
      token_(token),
      ttl_us_(ttl_us),
      strict_(strict),
      every_(microseconds(ttl_us / (strict ? 10 : 3))),
      due_(now + every_),
      ends_(now + microseconds(ttl_us)) {}

bool KeptLease::TakeDue(Deadline now) {
  if (now < due_) return false;
  due_ = now + every_;
  return !lost();
}

void KeptLease::Renew(Leases& leases, const SteadyFn& now) {
  const Deadline asked = now();
  const absl::Status renewed = leases.Renew(address_, token_, ttl_us_);
  if (renewed.ok()) ends_ = asked + microseconds(ttl_us_);
  // UNAVAILABLE says nothing about the lease: the next renewal asks again.
  if (absl::IsAborted(renewed) || (strict_ && now() >= ends_)) {
    lost_.store(true);
    metrics::LeasesLost().Increment();
  }
}

LeaseKeeper::Scope::Scope(LeaseKeeper& keeper, const Digest& address, int64_t token, int64_t ttl_us,
                          bool strict)
    : keeper_(keeper) {
  if (token == 0) return;
  lease_ = std::make_shared<KeptLease>(address, token, ttl_us, strict, SteadyNow());
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

void LeaseKeeper::Add(const std::shared_ptr<KeptLease>& lease) {
  {
    MutexLock lock(mu_);
    kept_.push_back(lease);
    metrics::LeasesHeld().Add(1);
    ++additions_;
    if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  }
  changed_.notify_all();
}

void LeaseKeeper::Remove(const std::shared_ptr<KeptLease>& lease) {
  MutexLock lock(mu_);
  metrics::LeasesHeld().Add(-static_cast<double>(std::erase(kept_, lease)));
}

void LeaseKeeper::Loop() {
  for (;;) {
    std::vector<std::shared_ptr<KeptLease>> due;
    {
      MutexLock lock(mu_);
      if (stop_) return;
      Deadline next = SteadyNow() + std::chrono::hours(1);
      for (const auto& lease : kept_) next = std::min(next, lease->due());
      const uint64_t seen = additions_;
      lock.WaitUntil(changed_, next,
                     [&]() UOPD_REQUIRES(mu_) { return stop_ || additions_ != seen; });
      const Deadline now = SteadyNow();
      for (const auto& lease : kept_) {
        if (lease->TakeDue(now)) due.push_back(lease);
      }
    }
    // The scope of a lease may have ended meanwhile. Renewing is harmless then: a released lease
    // stays released.
    for (const auto& lease : due) lease->Renew(leases_, SteadyNow);
  }
}

}  // namespace uopd::cache
