// SPDX-License-Identifier: MIT
// Row: a cached value with its full key and checksum, as it is stored.
#pragma once
#include <cstdint>
#include <string>

#include "cache/base/row/key.h"

namespace uopd::cache {

// The store of rows that stay with their daemon: winners from a bundle that nobody has proven yet.
inline constexpr char kUnprovenStore[] = "unproven";
// The same: the tuning operations of the daemons of a data folder.
inline constexpr char kTuneStore[] = "tune";

struct Row {
  std::string store, semantic, environment, value;
  std::string checksum;  // 16 bytes
  int64_t cost_us = 0;
  int64_t created_us = 0;
  int64_t last_used_us = 0;
  int64_t fence = 0;  // token of the lease under which the row was put; 0: without a lease
};

// A row for `key`, with its checksum.
Row MakeRow(const Key& key, std::string value, int64_t cost_us, int64_t now_us, int64_t fence);
// XXH3-128 over every field of the row except last_used_us, which is updated in place, and the
// checksum. Protects against bit rot, not against malice.
std::string Checksum(const Row& row);
Key KeyOf(const Row& row);
bool KeyMatches(const Row& row, const Key& key);
// The bytes that the row counts against the size limit: its own bytes and a share of indices and
// unused page space.
int64_t SizeOf(const Row& row);

}  // namespace uopd::cache
