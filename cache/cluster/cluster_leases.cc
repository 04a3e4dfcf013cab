// SPDX-License-Identifier: MIT
#include "cache/cluster/cluster_leases.h"

#include <algorithm>

namespace uopd::cache {
namespace {

constexpr size_t kManyTokens = 4096;

}  // namespace

void ClusterLeases::BePatient(const Digest& address) {
  const MutexLock lock(mu_);
  if (patient_.size() >= kManyTokens) patient_.clear();  // those have the leases of this machine
  patient_.insert(address);
}

Deadline ClusterLeases::BudgetOf(const Digest& address) {
  if (!server_->too_slow()) return steady_() + budget_;
  const MutexLock lock(mu_);
  const bool patient = patient_.contains(address);
  // More than the budget: it does not hurry (guarded_server.h).
  return steady_() +
         (patient ? std::max<std::chrono::microseconds>(2 * budget_, kPatientBudget) : budget_);
}

LeaseResult ClusterLeases::TryLease(const Digest& address, std::string_view owner, int64_t ttl_us) {
  // A lease of this machine that was granted while the server was away is still a lease.
  if (local_->IsHeld(address)) return local_->TryLease(address, owner, ttl_us);
  absl::StatusOr<LeaseResult> shared = server_->TryLease(address, owner, ttl_us, BudgetOf(address));
  if (shared.ok() && !shared->granted() && FreeOfDead(address))
    shared = server_->TryLease(address, owner, ttl_us, BudgetOf(address));
  if (!shared.ok()) return local_->TryLease(address, owner, ttl_us);
  if (shared->granted()) {
    if (marks_ != nullptr) marks_->Took(address, shared->token);
    const MutexLock lock(mu_);
    if (shared_.size() >= kManyTokens) {
      // Nobody renews a lease that expired long ago.
      const int64_t old = now_() - 2 * ttl_us;
      absl::erase_if(shared_, [&](const auto& one) { return one.second.expires_us < old; });
    }
    shared_[address] = *shared;
    shared_[address].holder = owner;
  }
  return *std::move(shared);
}

bool ClusterLeases::FreeOfDead(const Digest& address) {
  if (marks_ == nullptr) return false;
  const std::optional<int64_t> token = marks_->TokenOfDead(address);
  if (!token) return false;
  const absl::Status released = server_->Release(address, *token, BudgetOf(address));
  if (!released.ok() && !absl::IsAborted(released))
    return false;  // not known: the next one tries again
  marks_->Forget(address, *token);
  return released.ok();
}

std::optional<std::string> ClusterLeases::SharedOwner(const Digest& address, int64_t token) {
  const MutexLock lock(mu_);
  const auto it = shared_.find(address);
  if (it == shared_.end() || it->second.token != token) return std::nullopt;
  return it->second.holder;
}

bool ClusterLeases::IsShared(const Digest& address, int64_t token) {
  return SharedOwner(address, token).has_value();
}

absl::Status ClusterLeases::Renew(const Digest& address, int64_t token, int64_t ttl_us) {
  const std::optional<std::string> owner = SharedOwner(address, token);
  if (!owner) return local_->Renew(address, token, ttl_us);
  absl::Status status = server_->Renew(address, token, *owner, ttl_us, BudgetOf(address));
  const MutexLock lock(mu_);
  if (const auto it = shared_.find(address); status.ok() && it != shared_.end())
    it->second.expires_us = now_() + ttl_us;
  return status;
}

absl::Status ClusterLeases::Release(const Digest& address, int64_t token) {
  if (!IsShared(address, token)) return local_->Release(address, token);
  {
    const MutexLock lock(mu_);
    shared_.erase(address);
  }
  if (marks_ != nullptr) marks_->Forget(address, token);
  return server_->Release(address, token, BudgetOf(address));
}

absl::Status ClusterLeases::CheckNewest(const Digest& address, int64_t token) {
  if (!IsShared(address, token)) return local_->CheckNewest(address, token);
  return server_->CheckNewest(address, token, BudgetOf(address));
}

bool ClusterLeases::IsHeld(const Digest& address) {
  if (local_->IsHeld(address)) return true;
  const absl::StatusOr<bool> held = server_->IsHeld(address, BudgetOf(address));
  return held.ok() && *held && !FreeOfDead(address);
}

}  // namespace uopd::cache
