// SPDX-License-Identifier: MIT
// Bytes by key, kept in one place: a file, memory, a shared server. The store (cache/store.h) uses
// several such places.
//
// Thread-safe. Nothing here makes a request fail: blobs that cannot answer return kMiss or
// kUnavailable, and the caller computes the value. Times are microseconds since the epoch.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "cache/base/row/key.h"
#include "cache/base/row/row.h"

namespace uopd::cache {

enum class GetOutcome {
  kHit,
  kMiss,
  kCorrupt,      // the checksum does not match; the row is being removed
  kKeyMismatch,  // the row at the address has another key; the row is being removed
  kUnavailable,  // the blobs cannot be read now
};
const char* Name(GetOutcome outcome);

enum class Source { kNone, kMemory, kDisk, kCluster };
const char* Name(Source source);  // "disk"

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
GetResult Hit(const Row& row, Source source);

// Called once for a row that Put accepted: with OK when the row is as durable as this place can
// make it, with a failure when the row was given up. Called from any thread, perhaps before Put
// returns.
using Settled = std::function<void(const absl::Status&)>;

class Blobs {
 public:
  virtual ~Blobs() = default;

  // The row of a hit has the whole key and a correct checksum.
  virtual GetResult Get(const Key& key) = 0;
  virtual bool Contains(const Digest& address) = 0;
  // Accepts `row`, which can be read at once. If the row at the address has a greater fence, it
  // stays; the new row is dropped and counted as stale. If Put fails, `settled` is not called.
  // UNAVAILABLE: nothing can be put here now. RESOURCE_EXHAUSTED: the row is too large, or too many
  // rows wait.
  virtual absl::Status Put(const Digest& address, std::shared_ptr<const Row> row,
                           Settled settled) = 0;
  virtual void Erase(const Digest& address) = 0;
  // Waits until the rows that were put before are settled, and returns the first failure.
  virtual absl::Status Flush() = 0;
};

using NowFn = std::function<int64_t()>;
int64_t WallClockUs();

}  // namespace uopd::cache
