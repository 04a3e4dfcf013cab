// SPDX-License-Identifier: MIT
// The administration of a cache: its health, its contents, and removing entries.
//
// Thread-safe. Times are microseconds since the epoch.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cache/base/row/entries.h"
#include "cache/base/row/key.h"
#include "cache/base/row/row.h"

namespace uopd::cache {

enum class State {
  kOk,
  kRecovered,  // works; a bad file was set aside, when it was opened or later
  kReadOnly,   // reads the disk; new rows stay in memory
  kMemory,     // does not use the disk; memory of a bounded size
};
const char* Name(State state);

// What keeps a cache from being what it should be, where that is one of these.
enum class Fault {
  kNone,
  kNewer,  // the file is of a newer version, which stays as it is; kOk: there is another file
           // beside it
  kFull,   // there is no room on the disk
};

struct Health {
  State state = State::kOk;
  std::string reason;  // a sentence for the log; kOk: empty, or how the file was made usable
  Fault fault = Fault::kNone;
};

struct Usage {
  std::string store;
  int64_t rows = 0, bytes = 0;
};

// The most recently used first, at most `limit` of them.
void SortAndTrim(std::vector<EntryInfo>& entries, int64_t limit);

class Admin {
 public:
  virtual ~Admin() = default;

  // Sorted by name. An error: the place cannot be read now.
  virtual absl::StatusOr<std::vector<Usage>> ReadUsage() = 0;
  // The most recently used entries of a store.
  virtual std::vector<EntryInfo> List(const std::string& store, int64_t limit) = 0;
  // The full key of an entry that List returned; nullopt if the entry is gone or damaged. Does not
  // count as a lookup.
  virtual std::optional<Key> KeyOf(const Digest& address) = 0;
  // Removes the entries of one store, or of all when `store` is empty. Leases stay.
  virtual absl::Status Clear(const std::string& store) = 0;

  // For operators. Rows that wait to be written are not seen: flush before. An error says why the
  // place cannot be used.

  // A page of entries.
  virtual absl::StatusOr<std::vector<EntryInfo>> Select(const EntryQuery& query) = 0;
  // The row at an address as it is stored: nobody has checked it. Does not count as a lookup.
  virtual absl::StatusOr<std::optional<Row>> ReadRow(const Digest& address) = 0;
  // Removes entries, pinned ones too, and returns how many there were. One transaction.
  virtual absl::StatusOr<int64_t> Remove(std::span<const Digest> addresses) = 0;
  // Pins an entry, so that eviction by size leaves it, or ends that. NOT_FOUND: no such entry.
  // RESOURCE_EXHAUSTED: with it, pinned entries would have more than `max_pinned_bytes`.
  virtual absl::Status SetPinned(const Digest& address, bool pinned, int64_t max_pinned_bytes) = 0;

  // Takes effect at the next put.
  virtual void SetMaxBytes(int64_t max_bytes) = 0;
  virtual int64_t max_bytes() const = 0;

  virtual Health health() const = 0;
  State state() const { return health().state; }
};

}  // namespace uopd::cache
