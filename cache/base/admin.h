// SPDX-License-Identifier: MIT
// The administration of a cache: its health, its contents, and removing entries.
//
// Thread-safe. Times are microseconds since the epoch.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cache/base/key.h"

namespace uopd::cache {

enum class State {
  kOk,
  kRecovered,  // works; a bad file was set aside, when it was opened or later
  kReadOnly,   // reads the disk; new rows stay in memory
  kMemory,     // does not use the disk; memory of a bounded size
};
const char* Name(State state);

struct Health {
  State state = State::kOk;
  std::string reason;  // a sentence for the log; kOk: empty, or how the file was made usable
};

struct Usage {
  std::string store;
  int64_t rows = 0, bytes = 0;
};

struct EntryInfo {
  Digest address;
  std::string store;
  int64_t bytes = 0, cost_us = 0, created_us = 0, last_used_us = 0;
};
// The most recently used first, at most `limit` of them.
void SortAndTrim(std::vector<EntryInfo>& entries, int64_t limit);

class Admin {
 public:
  virtual ~Admin() = default;

  virtual std::vector<Usage> ReadUsage() = 0;  // sorted by name
  // The most recently used entries of a store.
  virtual std::vector<EntryInfo> List(const std::string& store, int64_t limit) = 0;
  // The full key of an entry that List returned; nullopt if the entry is gone or damaged. Does not
  // count as a lookup.
  virtual std::optional<Key> KeyOf(const Digest& address) = 0;
  // Removes the entries of one store, or of all when `store` is empty. Leases stay.
  virtual absl::Status Clear(const std::string& store) = 0;

  // Takes effect at the next put.
  virtual void SetMaxBytes(int64_t max_bytes) = 0;
  virtual int64_t max_bytes() const = 0;

  virtual Health health() const = 0;
  State state() const { return health().state; }
};

}  // namespace uopd::cache
