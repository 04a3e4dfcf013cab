// SPDX-License-Identifier: MIT
// How operators look at the entries of a cache: filters, orders and pages.
//
// A page begins behind the last entry of the page before (keyset pagination). So pages stay right
// while entries come and go: an entry that stays is listed once, in any number of pages. Plain
// data. Times are microseconds since the epoch.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/base/row/key.h"

namespace uopd::cache {

struct EntryInfo {
  Digest address;
  std::string store;
  int64_t bytes = 0, cost_us = 0, created_us = 0, last_used_us = 0;
  bool pinned = false;      // eviction by size leaves it
  std::string checksum;     // of the row (row.h); set by Select alone, as the next one
  std::string environment;  // the environment key
};

struct EntryFilter {
  std::string store;        // empty: all stores
  std::string key_prefix;   // hexadecimal digits of the address, in lower case; empty: all
  std::string environment;  // a part of the environment key; empty: all
  bool pinned_only = false;
  int64_t unused_since_us = std::numeric_limits<int64_t>::max();  // last used before
};

enum class EntryOrder : uint8_t { kLastUsed, kBytes, kCost, kCreated, kKey };

struct EntryQuery {
  EntryFilter filter;
  EntryOrder order = EntryOrder::kKey;
  // The last entry of the page before; nullopt: the first page.
  struct After {
    int64_t value = 0;  // OrderValue of that entry
    Digest address;
  };
  std::optional<After> after;
  int64_t limit = 100;
};

// What `order` compares; the greatest comes first, and of equals the smaller address. 0 for kKey.
int64_t OrderValue(const EntryInfo& entry, EntryOrder order);
bool ComesBefore(const EntryInfo& a, const EntryInfo& b, EntryOrder order);
// Whether the entry lies on a page of the query, limit aside.
bool Matches(const EntryQuery& query, const EntryInfo& entry);
// Sorts the entries by the order of the query and drops what is above its limit.
void MakePage(const EntryQuery& query, std::vector<EntryInfo>& entries);

// The least and the greatest address that begin with `prefix`.
struct AddressRange {
  Digest first, last;
};
// Nullopt: `prefix` is no hexadecimal number of at most 64 digits in lower case.
std::optional<AddressRange> RangeOf(std::string_view prefix);

}  // namespace uopd::cache
