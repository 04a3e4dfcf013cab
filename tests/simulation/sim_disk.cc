// SPDX-License-Identifier: MIT
#include "tests/simulation/sim_disk.h"

#include <algorithm>

namespace uopd::sim {

std::optional<uint32_t> SimTier::Here(const Digest& address) const {
  const std::optional<uint32_t> slot = keys_.Find(address);
  if (!slot || keys_[*slot].environment != disk_.environment() || !disk_.Has(keys_[*slot].local))
    return std::nullopt;
  return slot;
}

cache::Row SimTier::RowOf(uint32_t slot) const {
  const Slot& one = keys_[slot];
  return MakeRow(keys_.KeyOf(slot), "value", 1, one.created_us, one.fence);
}

cache::GetResult SimTier::Get(const cache::Key& key) {
  const std::optional<uint32_t> slot = Here(key.address());
  if (!slot) return {};
  return Hit(RowOf(*slot), cache::Source::kDisk);
}

bool SimTier::Contains(const Digest& address) { return Here(address).has_value(); }

absl::Status SimTier::Put(const Digest& address, std::shared_ptr<const cache::Row> row,
                          cache::Settled settled) {
  if (const std::optional<uint32_t> found = keys_.Find(address)) {
    Slot& slot = keys_[*found];
    if (row->fence >= slot.fence) {
      slot.fence = row->fence;
      slot.created_us = row->created_us;
    }
    disk_.Set(slot.local);
  }
  if (settled) settled(absl::OkStatus());
  return absl::OkStatus();
}

absl::StatusOr<std::optional<cache::Row>> SimTier::ReadRow(const Digest& address) {
  const std::optional<uint32_t> slot = Here(address);
  if (!slot) return std::nullopt;
  return RowOf(*slot);
}

absl::StatusOr<std::vector<cache::EntryInfo>> SimTier::Select(const cache::EntryQuery& query) {
  std::vector<cache::EntryInfo> out;
  int64_t local = int64_t{disk_.end()} - 1;
  if (query.after) local = std::min(local, query.after->value - 1);
  for (; local >= 0 && static_cast<int64_t>(out.size()) < query.limit; --local) {
    if (!disk_.Has(static_cast<uint32_t>(local))) continue;
    const Slot& slot = keys_[keys_.At(disk_.environment(), static_cast<uint32_t>(local))];
    out.push_back({.address = slot.address,
                   .store = slot.tuning ? "tuning" : "kernel",
                   .bytes = 1,
                   .last_used_us = local});
  }
  return out;
}

}  // namespace uopd::sim
