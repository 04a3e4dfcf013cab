// SPDX-License-Identifier: MIT
// The Store of a daemon: rows in an SQLite file that several processes share, with memory behind it
// when the disk fails.
//
// Thread-safe. Open never fails; health() says what became of it (file_keeper.h draws the states).
// Reads look into the write queue, then the file, then memory. Puts return before the disk has
// them, fenced puts and leases after. What kReadOnly and kMemory take goes to a bounded table in
// memory; leases then hold within this process only.
//
// A process killed at any point loses at most what was not flushed; losing power may lose the last
// commits, never the file.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cache/bell.h"
#include "cache/file_keeper.h"
#include "cache/memory_table.h"
#include "cache/store.h"
#include "cache/write_queue.h"

namespace uopd::cache {

struct SqliteStoreOptions {
  std::string folder;
  int64_t max_bytes = int64_t{4} << 30;      // of rows; the file is a little larger
  int64_t memory_bytes = int64_t{64} << 20;  // when the disk cannot be written
  FileOptions file;                          // its path is set from the folder
  QueueOptions queue;
  int64_t retry_us = 30 * int64_t{1000000};  // after a failure
  NowFn now = WallClockUs;
  std::function<void(const Health&)>
      on_change;  // one log line; from any thread; may call health() and stats()
};

class SqliteStore final : public Store {
 public:
  static std::unique_ptr<SqliteStore> Open(SqliteStoreOptions options);
  ~SqliteStore() override;  // flushes

  GetResult Get(const Key& key) override;
  absl::Status Put(const Key& key, std::string bytes, int64_t cost_us) override;
  absl::Status PutFenced(const Key& key, std::string bytes, int64_t cost_us,
                         int64_t token) override;
  absl::Status Flush() override;
  LeaseResult TryLease(const Key& key, std::string_view owner, int64_t ttl_us) override;
  absl::Status RenewLease(const Key& key, int64_t token, int64_t ttl_us) override;
  absl::Status ReleaseLease(const Key& key, int64_t token) override;
  WatchOutcome WatchReady(const Key& key, const WaitLimits& limits) override;
  std::vector<Usage> ReadUsage() override;
  std::vector<EntryInfo> List(const std::string& store, int64_t limit) override;
  std::optional<Key> KeyOf(const Digest& address) override;
  absl::Status Clear(const std::string& store) override;
  Health health() const override { return keeper_.health(); }
  const StatsTable& stats() const override { return stats_; }

 private:
  explicit SqliteStore(SqliteStoreOptions options);
  GetResult Lookup(const Key& key);
  // Checks what was found at the key's address; a bad row is queued for removal.
  GetResult Judge(const Key& key, Row row);
  absl::Status WriteBatch(const std::vector<WriteOp>& ops);
  absl::StatusOr<WriteResult> WriteMakingRoom(CacheFile& file, const std::vector<WriteOp>& ops);
  void KeepInMemory(const std::vector<WriteOp>& ops);
  absl::Status PutInMemory(const Key& key, Row row);
  void Count(const WriteResult& result);
  void RefreshGauges();

  const SqliteStoreOptions options_;
  StatsTable stats_;
  Bell bell_;
  MemoryTable memory_;
  FileKeeper keeper_;
  WriteQueue queue_;  // last: its thread uses everything above
};

}  // namespace uopd::cache
