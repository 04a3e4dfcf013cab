// SPDX-License-Identifier: MIT
// The cache as its users see it: bytes by key, with leases. Tiers (SQLite, memory, a shared server)
// implement it.
//
// Thread-safe. Nothing here fails a request: a cache that cannot answer says kMiss or kUnavailable
// and the caller computes; a cache that cannot keep says so in the status of Put, which may be
// ignored. Times are microseconds since the epoch.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cache/key.h"
#include "cache/stats.h"

namespace uopd::cache {

enum class GetOutcome {
  kHit,
  kMiss,
  kCorrupt,      // the checksum does not match; the row is being removed
  kKeyMismatch,  // the address is taken by another key; the row is being removed
  kUnavailable,  // the store cannot be read now
};
const char* Name(GetOutcome outcome);

enum class Source { kNone, kMemory, kDisk };

struct Entry {
  std::string bytes;
  int64_t cost_us = 0;
  int64_t created_us = 0;
  int64_t last_used_us = 0;
  int64_t fence = 0;
};

struct GetResult {
  GetOutcome outcome = GetOutcome::kMiss;
  Source source = Source::kNone;
  Entry entry;  // set on a hit only
  bool hit() const { return outcome == GetOutcome::kHit; }
};

enum class LeaseOutcome { kGranted, kBusy, kUnavailable };

struct LeaseResult {
  LeaseOutcome outcome = LeaseOutcome::kUnavailable;
  int64_t token = 0;  // greater than every token granted before; 0 unless granted
  int64_t expires_us = 0;
  std::string holder;  // who has it, when busy
  bool granted() const { return outcome == LeaseOutcome::kGranted; }
};

enum class WatchOutcome { kReady, kLeaseFree, kDeadlineExceeded, kCancelled };

// How long a caller waits. `cancelled` is polled, from the waiting thread.
struct WaitLimits {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::function<bool()> cancelled;
};

enum class State {
  kOk,
  kRecovered,  // works; a bad file was set aside when it was opened or later
  kReadOnly,   // reads the disk; what is put stays in memory
  kMemory,     // no disk at all: a bounded memory store
};
const char* Name(State state);

struct Health {
  State state = State::kOk;
  std::string reason;  // a sentence for the log; empty when kOk
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

class Store {
 public:
  virtual ~Store() = default;

  virtual GetResult Get(const Key& key) = 0;
  // `cost_us` is what it took to make the bytes. They are readable at once and durable after Flush.
  // RESOURCE_EXHAUSTED: too large or too much queued. A value put under a lease is not replaced.
  virtual absl::Status Put(const Key& key, std::string bytes, int64_t cost_us) = 0;
  // Durable on return. ABORTED when a newer token was granted, or the lease is unknown: somebody
  // else decides the value.
  virtual absl::Status PutFenced(const Key& key, std::string bytes, int64_t cost_us,
                                 int64_t token) = 0;
  // Waits until what was put before is durable. UNAVAILABLE or RESOURCE_EXHAUSTED when some of it
  // is not.
  virtual absl::Status Flush() = 0;

  // One owner at a time may compute `key`; a lease that is not renewed ends by itself.
  virtual LeaseResult TryLease(const Key& key, std::string_view owner, int64_t ttl_us) = 0;
  // ABORTED when the lease has expired or was taken over.
  virtual absl::Status RenewLease(const Key& key, int64_t token, int64_t ttl_us) = 0;
  virtual absl::Status ReleaseLease(const Key& key, int64_t token) = 0;
  // Waits until the key has a value or nobody holds its lease.
  virtual WatchOutcome WatchReady(const Key& key, const WaitLimits& limits) = 0;

  virtual std::vector<Usage> ReadUsage() = 0;  // sorted by name
  // The most recently used entries of a store.
  virtual std::vector<EntryInfo> List(const std::string& store, int64_t limit) = 0;
  // The full key of an entry that List named; nothing if it is gone or damaged. Counts no lookup.
  virtual std::optional<Key> KeyOf(const Digest& address) = 0;
  // Removes the entries of one store, or of all when `store` is empty. Leases stay.
  virtual absl::Status Clear(const std::string& store) = 0;

  virtual Health health() const = 0;
  State state() const { return health().state; }
  virtual const StatsTable& stats() const = 0;
};

using NowFn = std::function<int64_t()>;
int64_t WallClockUs();

}  // namespace uopd::cache
