// SPDX-License-Identifier: MIT
// A tier that keeps its rows in an SQLite file, which several processes may share.
//
// Thread-safe. Opening never fails; health() says whether there is a file (file_keeper.h shows the
// states). Reads look into the write queue, then into the file. A put returns as soon as the row is
// on the queue. The thread of the queue hands the row to SQLite within 20 ms, or after the batch
// before it. No caller waits for the disk. While the file cannot be written, Put answers
// UNAVAILABLE.
//
// A process that is killed at any point loses no row whose Put has returned: rows that wait are in
// a file of their own as well (recent_rows.h), which the next FileTier of the folder takes over. A
// loss of power may lose the last commits, but never the file.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/base/stats.h"
#include "cache/base/tier.h"
#include "cache/file/file_keeper.h"
#include "cache/file/recent_rows.h"
#include "cache/file/write_queue.h"

namespace uopd::cache {

struct FileTierOptions {
  std::string folder;
  int64_t max_bytes = int64_t{4} << 30;  // of rows; the file is a little larger
  FileOptions file;                      // its path is set from the folder
  QueueOptions queue;
  int64_t retry_us = 30 * int64_t{1000000};  // after a failure
  NowFn now = WallClockUs;
  std::function<void(const Health&)> on_change;  // from any thread
};

class FileTier final : public Tier {
 public:
  // `stats` outlives the tier.
  FileTier(FileTierOptions options, StatsTable& stats);
  ~FileTier() override;  // writes what is queued

  GetResult Get(const Key& key) override;
  bool Contains(const Digest& address) override;
  absl::Status Put(const Digest& address, std::shared_ptr<const Row> row, Settled settled) override;
  // Does nothing: rows leave the file only by eviction, by Clear, or because they are bad.
  void Erase(const Digest&) override {}
  absl::Status Flush() override;

  absl::StatusOr<std::vector<Usage>> ReadUsage() override;
  std::vector<EntryInfo> List(const std::string& store, int64_t limit) override;
  std::optional<Key> KeyOf(const Digest& address) override;
  absl::Status Clear(const std::string& store) override;
  absl::StatusOr<std::vector<EntryInfo>> Select(const EntryQuery& query) override;
  absl::StatusOr<std::optional<Row>> ReadRow(const Digest& address) override;
  absl::StatusOr<int64_t> Remove(std::span<const Digest> addresses) override;
  absl::Status SetPinned(const Digest& address, bool pinned, int64_t max_pinned_bytes) override;
  void SetMaxBytes(int64_t max_bytes) override { max_bytes_ = max_bytes; }
  int64_t max_bytes() const override { return max_bytes_; }
  Health health() const override { return keeper_.health(); }

 private:
  // What `read` returns for the file, which it may only read. Without a file: `none`.
  template <class F, class T>
  absl::StatusOr<T> WithFile(F read, T none);
  // Checks the row that was found at the key's address. A bad row is queued for removal.
  GetResult Judge(const Key& key, Row row);
  // Queues the rows that processes left which were killed.
  void TakeOverRecent();
  absl::Status WriteBatch(const std::vector<WriteOp>& ops);
  absl::StatusOr<WriteResult> WriteMakingRoom(CacheFile& file, const std::vector<WriteOp>& ops);
  void Count(const WriteResult& result);

  const FileTierOptions options_;
  StatsTable& stats_;
  std::atomic<int64_t> max_bytes_;
  FileKeeper keeper_;
  RecentRows recent_;
  WriteQueue queue_;  // the last member: its thread uses all others
};

}  // namespace uopd::cache
