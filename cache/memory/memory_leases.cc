// SPDX-License-Identifier: MIT
#include "cache/memory/memory_leases.h"

#include <algorithm>

namespace uopd::cache {
namespace {

constexpr size_t kSweep = 4096;  // at this many leases, those that have ended are removed

}  // namespace

LeaseResult MemoryLeases::TryLease(const Digest& address, std::string_view owner, int64_t ttl_us) {
  const int64_t now_us = now_();
  MutexLock lock(mu_);
  if (leases_.size() >= kSweep) {
    absl::erase_if(leases_, [&](const auto& item) { return item.second.expires_us <= now_us; });
  }
  Lease& lease = leases_[address];
  if (lease.expires_us > now_us) {
    return {.outcome = LeaseOutcome::kBusy, .expires_us = lease.expires_us, .holder = lease.owner};
  }
  last_token_ = std::max(last_token_ + 1, now_us);
  lease = {.owner = std::string(owner), .token = last_token_, .expires_us = now_us + ttl_us};
  return {.outcome = LeaseOutcome::kGranted,
          .token = lease.token,
          .expires_us = lease.expires_us,
          .holder = lease.owner};
}

MemoryLeases::Lease* MemoryLeases::Find(const Digest& address, int64_t token) {
  auto it = leases_.find(address);
  return it == leases_.end() || it->second.token != token ? nullptr : &it->second;
}

absl::Status MemoryLeases::Renew(const Digest& address, int64_t token, int64_t ttl_us) {
  const int64_t now_us = now_();
  MutexLock lock(mu_);
  Lease* lease = Find(address, token);
  if (lease == nullptr || lease->expires_us <= now_us) return LeaseLost();
  lease->expires_us = now_us + ttl_us;
  return absl::OkStatus();
}

absl::Status MemoryLeases::Release(const Digest& address, int64_t token) {
  MutexLock lock(mu_);
  Lease* lease = Find(address, token);
  if (lease == nullptr) return LeaseLost();
  lease->expires_us = 0;  // the token stays, so that earlier owners are still refused
  return absl::OkStatus();
}

absl::Status MemoryLeases::CheckNewest(const Digest& address, int64_t token) {
  MutexLock lock(mu_);
  return Find(address, token) == nullptr ? LeaseLost() : absl::OkStatus();
}

bool MemoryLeases::IsHeld(const Digest& address) {
  const int64_t now_us = now_();
  MutexLock lock(mu_);
  auto it = leases_.find(address);
  return it != leases_.end() && it->second.expires_us > now_us;
}

}  // namespace uopd::cache
