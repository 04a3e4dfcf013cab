// SPDX-License-Identifier: MIT
// The cache as the daemon uses it: bytes by key in tiers, leases over them, and their
// administration.
//
// A tier takes what the tiers before it did not: first the file that the daemons of a folder share,
// then memory. One authority hands out the leases and their tokens. Thread-safe. Nothing here fails
// a request: a cache that cannot answer says kMiss or kUnavailable and the caller computes; a cache
// that cannot keep says so in the status of Put, which may be ignored. Times are microseconds since
// the epoch.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cache/base/bell.h"
#include "cache/base/lease_keeper.h"
#include "cache/base/leases.h"
#include "cache/base/stats.h"
#include "cache/base/tier.h"
#include "cache/file/file_tier.h"

namespace uopd::cache {

struct StoreOptions {
  std::string folder;
  int64_t max_bytes = int64_t{4} << 30;      // of rows; the file is a little larger
  int64_t memory_bytes = int64_t{64} << 20;  // of rows that the file did not take
  FileOptions file;                          // its path is set from the folder
  QueueOptions queue;
  int64_t retry_us = 30 * int64_t{1000000};  // after a failure of the disk
  NowFn now = WallClockUs;
  // One log line each. From any thread; they may call health().
  std::function<void(const Health&)> on_change;
  std::function<void(const std::string&)> on_lease_failure;
};

class Store final : public Admin {
 public:
  // In the folder of `options`. Never fails; health() says what became of the file.
  static std::unique_ptr<Store> Open(StoreOptions options);
  // In memory alone.
  explicit Store(int64_t max_bytes, NowFn now = WallClockUs);
  // Of given tiers, at least one. `stats` is the table that the tiers count in.
  Store(std::unique_ptr<StatsTable> stats, std::vector<std::unique_ptr<Tier>> tiers,
        std::unique_ptr<Leases> leases, NowFn now = WallClockUs);
  ~Store() override;  // flushes
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  GetResult Get(const Key& key);
  // `cost_us` is what it took to make the bytes. They can be read at once and are durable after
  // Flush. RESOURCE_EXHAUSTED: too large, or too much waits to be written. A value that was put
  // under a lease is not replaced.
  absl::Status Put(const Key& key, std::string bytes, int64_t cost_us);
  // As Put, under the lease of `token`, and releases the lease when the bytes are durable. ABORTED
  // when a newer token was granted, or the lease is unknown: somebody else decides the value.
  absl::Status PutFenced(const Key& key, std::string bytes, int64_t cost_us, int64_t token);
  // Waits until what was put before is durable. UNAVAILABLE or RESOURCE_EXHAUSTED when some of it
  // is not.
  absl::Status Flush();

  // One owner at a time may compute `key`; a lease that is not renewed ends by itself.
  LeaseResult TryLease(const Key& key, std::string_view owner, int64_t ttl_us);
  absl::Status ReleaseLease(const Key& key, int64_t token);
  // Renews leases while somebody computes under them.
  LeaseKeeper& keeper() { return keeper_; }
  Leases& leases() { return *leases_; }
  // Waits until the key has a value or nobody holds its lease.
  WatchOutcome WatchReady(const Key& key, const WaitLimits& limits);

  std::vector<Usage> ReadUsage() override;
  std::vector<EntryInfo> List(const std::string& store, int64_t limit) override;
  std::optional<Key> KeyOf(const Digest& address) override;
  absl::Status Clear(const std::string& store) override;
  void SetMaxBytes(int64_t max_bytes) override { tiers_.front()->SetMaxBytes(max_bytes); }
  int64_t max_bytes() const override { return tiers_.front()->max_bytes(); }
  Health health() const override { return tiers_.front()->health(); }
  // Reads the number of rows and their bytes anew.
  const StatsTable& stats();

 private:
  GetResult Lookup(const Key& key);
  // Puts the row into the first tier from `first` on that takes it.
  absl::Status PutRow(size_t first, const Digest& address, const std::shared_ptr<const Row>& row,
                      const Settled& settled);
  Store(std::unique_ptr<StatsTable> stats, int64_t max_bytes, const NowFn& now);
  absl::Status CountPut(StoreStats& stats, absl::Status status);

  const NowFn now_;
  const std::unique_ptr<StatsTable> stats_;
  Bell bell_;
  const std::unique_ptr<Leases> leases_;
  LeaseKeeper keeper_;
  std::vector<std::unique_ptr<Tier>> tiers_;
};

}  // namespace uopd::cache
