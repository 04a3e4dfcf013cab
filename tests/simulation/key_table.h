// SPDX-License-Identifier: MIT
// KeyTable: the names of the simulated kernels, and what really became of them.
//
// Of a huge space of names only those exist that somebody asked for. Each is two slots one after
// the other: the kernel, and its tuning. A slot is the key of a value in the cache. One thread.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cache/base/row/row.h"

namespace uopd::sim {

struct Slot {
  Digest address;
  uint64_t name = 0;
  uint32_t local = 0;  // its number within the environment
  uint32_t environment = 0;
  bool tuning = false;
  // The newest value that any daemon has.
  int64_t fence = 0, created_us = 0;
  // The truth, which no daemon knows: who carried the first computation to its end, and what
  // happened to the result.
  int32_t done = 0;  // how often it was computed to its end
  uint32_t by = 0, life = 0;
  int64_t first_us = 0;
  bool alone = false;    // without a lease of the server
  bool away = false;     // and it could not be reached then
  bool reached = false;  // the server had it once
};

class KeyTable {
 public:
  explicit KeyTable(uint32_t environments) : local_(environments) {}

  // The slot of the kernel; the slot of its tuning is the next one.
  uint32_t Touch(uint32_t environment, uint64_t name);
  std::optional<uint32_t> Find(const Digest& address) const;
  cache::Key KeyOf(uint32_t slot) const;
  Slot& operator[](uint32_t slot) { return slots_[slot]; }
  const Slot& operator[](uint32_t slot) const { return slots_[slot]; }
  size_t size() const { return slots_.size(); }
  // The slot with this number within the environment.
  uint32_t At(uint32_t environment, uint32_t local) const { return local_[environment][local]; }

 private:
  std::vector<Slot> slots_;
  std::vector<std::vector<uint32_t>> local_;
  absl::flat_hash_map<uint64_t, uint32_t> by_name_;  // of environment and name
  absl::flat_hash_map<Digest, uint32_t> by_address_;
};

}  // namespace uopd::sim
