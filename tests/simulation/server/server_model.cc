// SPDX-License-Identifier: MIT
#include "tests/simulation/server/server_model.h"

#include <algorithm>

namespace uopd::sim {

namespace {
constexpr int kEvictionSamples = 5;  // of Redis: maxmemory-samples
// Redis counts in milliseconds.
int64_t LeaseTime(int64_t ttl_us) { return std::max<int64_t>(ttl_us / 1000, 1) * 1000; }
}  // namespace

const std::string* ServerModel::Get(const Digest& address, int64_t now_us) {
  const auto it = records_.find(address);
  if (it == records_.end()) return nullptr;
  it->second.used_us = now_us;
  return &it->second.record;
}

bool ServerModel::Has(const Digest& address) const { return records_.contains(address); }

bool ServerModel::Put(const Digest& address, std::string_view record, int64_t fence, int64_t bytes,
                      int64_t now_us) {
  const auto [it, added] = records_.try_emplace(address);
  Record& there = it->second;
  if (!added && there.fence > fence) return false;
  if (added) {
    there.place = order_.size();
    order_.push_back(address);
  }
  bytes_ += bytes - there.bytes;
  there.fence = fence;
  there.bytes = bytes;
  there.used_us = now_us;
  there.record = record;
  while (options_.max_bytes > 0 && bytes_ > options_.max_bytes && records_.size() > 1)
    EvictOne(address);
  return true;
}

void ServerModel::EvictOne(const Digest& but) {
  const Digest* oldest = nullptr;
  int64_t used_us = 0;
  for (int i = 0; i < kEvictionSamples || oldest == nullptr; ++i) {
    const Digest& one = order_[random_.Below(order_.size())];
    const int64_t its = records_[one].used_us;
    if (one == but || (oldest != nullptr && its >= used_us)) continue;
    oldest = &one;
    used_us = its;
  }
  ++evicted_;
  Remove(Digest(*oldest));
}

void ServerModel::Remove(const Digest& address) {
  const auto it = records_.find(address);
  bytes_ -= it->second.bytes;
  const size_t place = it->second.place;
  if (place + 1 != order_.size()) {
    order_[place] = order_.back();
    records_[order_[place]].place = place;
  }
  order_.pop_back();
  records_.erase(address);
}

cache::LeaseResult ServerModel::TryLease(const Digest& address, std::string_view owner,
                                         int64_t ttl_us, int64_t now_us) {
  Lease& lease = leases_[address];
  if (lease.ends_us > now_us && options_.plant != Plant::kGrantsAlways)
    return {.outcome = cache::LeaseOutcome::kBusy, .holder = lease.owner};
  lease.newest = lease.token = std::max(lease.newest + 1, now_us);
  lease.ends_us = now_us + LeaseTime(ttl_us);
  lease.owner = owner;
  return {.outcome = cache::LeaseOutcome::kGranted,
          .token = lease.token,
          .expires_us = now_us + ttl_us};
}

bool ServerModel::Renew(const Digest& address, int64_t token, std::string_view owner,
                        int64_t ttl_us, int64_t now_us) {
  if (options_.plant == Plant::kRenewsNothing) return true;
  Lease& lease = leases_[address];
  const bool held = lease.ends_us > now_us;
  if (!held || lease.token != token) {
    if (held || lease.newest != 0) return false;
    lease = {.newest = token, .token = token, .owner = std::string(owner)};
  }
  lease.ends_us = now_us + LeaseTime(ttl_us);
  return true;
}

bool ServerModel::Release(const Digest& address, int64_t token, int64_t now_us) {
  const auto it = leases_.find(address);
  if (it == leases_.end()) return true;
  Lease& lease = it->second;
  // Until then it is held, also for those who ask later in the simulation and earlier in its time
  // (server_link.h).
  if (lease.ends_us > now_us && lease.token == token) lease.ends_us = now_us;
  return lease.newest == 0 || lease.newest == token;
}

bool ServerModel::IsNewest(const Digest& address, int64_t token) const {
  const auto it = leases_.find(address);
  return it == leases_.end() || it->second.newest == 0 || it->second.newest == token;
}

bool ServerModel::IsHeld(const Digest& address, int64_t now_us) const {
  const auto it = leases_.find(address);
  return it != leases_.end() && it->second.ends_us > now_us;
}

cache::KeysAge ServerModel::Age(uint64_t daemon, int64_t now_us) {
  // Calls may come a little out of order (server_link.h): an older one counts in the newest minute.
  const int64_t minute = std::max(now_us / 60'000'000, minute_);
  if (minute > minute_) daemons_[static_cast<size_t>(minute % 2)].clear();
  if (minute > minute_ + 1) daemons_[static_cast<size_t>((minute + 1) % 2)].clear();
  minute_ = minute;
  daemons_[static_cast<size_t>(minute % 2)].insert(daemon);
  return {born_us_, now_us - born_us_,
          static_cast<int64_t>(std::max(daemons_[0].size(), daemons_[1].size()))};
}

void ServerModel::Empty(int64_t now_us) {
  for (auto& minute : daemons_) minute.clear();
  records_.clear();
  order_.clear();
  leases_.clear();
  bytes_ = 0;
  puts_.Clear();
  notices_.Clear();
  born_us_ = now_us;
}

}  // namespace uopd::sim
