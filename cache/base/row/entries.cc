// SPDX-License-Identifier: MIT
#include "cache/base/row/entries.h"

#include <algorithm>

#include "core/base/status.h"

namespace uopd::cache {

int64_t OrderValue(const EntryInfo& entry, EntryOrder order) {
  switch (order) {
    case EntryOrder::kLastUsed:
      return entry.last_used_us;
    case EntryOrder::kBytes:
      return entry.bytes;
    case EntryOrder::kCost:
      return entry.cost_us;
    case EntryOrder::kCreated:
      return entry.created_us;
    case EntryOrder::kKey:
      return 0;
  }
  UOPD_CHECK(false);
}

bool ComesBefore(const EntryInfo& a, const EntryInfo& b, EntryOrder order) {
  const int64_t x = OrderValue(a, order), y = OrderValue(b, order);
  return x != y ? x > y : a.address < b.address;
}

bool Matches(const EntryQuery& query, const EntryInfo& entry) {
  const EntryFilter& filter = query.filter;
  if (!filter.store.empty() && entry.store != filter.store) return false;
  if (filter.pinned_only && !entry.pinned) return false;
  if (entry.last_used_us >= filter.unused_since_us) return false;
  if (entry.environment.find(filter.environment) == std::string::npos) return false;
  const auto range = RangeOf(filter.key_prefix);
  if (!range || entry.address < range->first || range->last < entry.address) return false;
  if (!query.after) return true;
  const int64_t value = OrderValue(entry, query.order);
  if (value != query.after->value) return value < query.after->value;
  return query.after->address < entry.address;
}

void MakePage(const EntryQuery& query, std::vector<EntryInfo>& entries) {
  std::ranges::sort(entries, [&](const EntryInfo& a, const EntryInfo& b) {
    return ComesBefore(a, b, query.order);
  });
  const auto limit = static_cast<size_t>(std::max<int64_t>(query.limit, 0));
  if (entries.size() > limit) entries.resize(limit);
}

std::optional<AddressRange> RangeOf(std::string_view prefix) {
  AddressRange out;
  out.last.bytes.fill(0xff);
  if (prefix.size() > 2 * out.first.bytes.size()) return std::nullopt;
  for (size_t i = 0; i < prefix.size(); ++i) {
    const char c = prefix[i];
    if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f')) return std::nullopt;
    const auto digit = static_cast<uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    const int shift = i % 2 == 0 ? 4 : 0;
    const auto clear = static_cast<uint8_t>(~(0xf << shift));
    for (Digest* end : {&out.first, &out.last}) {
      uint8_t& byte = end->bytes[i / 2];
      byte = static_cast<uint8_t>((byte & clear) | digit << shift);
    }
  }
  return out;
}

}  // namespace uopd::cache
