// SPDX-License-Identifier: MIT
// CacheFile: one opened cache file, with rows and usage in SQLite. Its caller decides what to do
// about failures.
//
// Thread-safe: each reader takes a connection from a small pool; writes share one connection under
// a lock. Every failure is a status with the codes of sqlite/database.h. An object stands for one
// inode. When the file at the path is replaced, the keeper (file_keeper.h) opens another CacheFile.
#pragma once
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/base/admin.h"
#include "cache/base/blobs.h"
#include "cache/base/row/row.h"
#include "cache/sqlite/database.h"
#include "core/base/mutex.h"

namespace uopd::cache {

struct FileOptions {
  std::string path;
  bool read_only = false;
  int busy_timeout_ms = 5000;
  int64_t page_cache_kib = 16 * 1024;  // per connection; SQLite's own default is 2 MB
  int64_t max_pages = 0;               // 0: limited by the disk alone
  int max_readers = 8;
  int64_t verify_bytes = int64_t{64} << 20;  // files up to this size are checked whole when opened
};

struct FileId {
  uint64_t device = 0, inode = 0;
  bool operator==(const FileId&) const = default;
};
// Identifies the file that is at the path now. Does not open the file, because closing it would
// drop the locks that SQLite holds in this process.
std::optional<FileId> Identify(const std::string& path);

struct WriteOp {
  enum Kind { kPut, kDeleteBad, kTouch };
  Kind kind = kPut;
  Digest address;
  std::shared_ptr<const Row> row;  // kPut: the new row; otherwise the row as it was read
  int64_t now_us = 0;
  Settled settled;  // kPut: may be empty
};

struct WriteResult {
  std::map<std::string, int64_t> evicted, stale;  // number of rows by store
};

class CacheFile {
 public:
  // DATA_LOSS: the file is damaged. FAILED_PRECONDITION: the file has another version or belongs to
  // another application. UNIMPLEMENTED: a newer uopd wrote the file. Other codes: failures of the
  // file system.
  static absl::StatusOr<std::shared_ptr<CacheFile>> Open(const FileOptions& options);

  bool read_only() const { return read_only_; }
  const FileId& id() const { return id_; }
  const std::string& path() const { return options_.path; }
  // The version from which Open migrated the file; 0 if the file had the present version.
  int64_t migrated_from() const { return migrated_from_; }

  absl::StatusOr<std::optional<Row>> Read(const Digest& address);
  absl::StatusOr<bool> Contains(const Digest& address);
  // Applies all of `ops` or none of them, and evicts rows down to max_bytes in the same
  // transaction.
  absl::StatusOr<WriteResult> Write(const std::vector<WriteOp>& ops, int64_t max_bytes);
  // Frees room below `max_bytes` without adding anything.
  absl::StatusOr<WriteResult> Evict(int64_t max_bytes);

  absl::StatusOr<std::vector<Usage>> ReadUsage();
  absl::StatusOr<std::vector<EntryInfo>> List(const std::string& store, int64_t limit);
  absl::Status Clear(const std::string& store);

  // As those of Admin.
  absl::StatusOr<std::vector<EntryInfo>> Select(const EntryQuery& query);
  absl::StatusOr<int64_t> Remove(std::span<const Digest> addresses);
  absl::Status SetPinned(const Digest& address, bool pinned, int64_t max_pinned_bytes);

 private:
  class Reader;
  explicit CacheFile(FileOptions options) : options_(std::move(options)) {}
  absl::Status Prepare();
  absl::StatusOr<std::unique_ptr<sqlite::Database>> Connect(bool read_only) const;
  absl::StatusOr<std::unique_ptr<sqlite::Database>> TakeReader() UOPD_EXCLUDES(readers_mu_);
  void GiveReader(std::unique_ptr<sqlite::Database> db, bool healthy) UOPD_EXCLUDES(readers_mu_);

  absl::Status PutRow(const Digest& address, const Row& row, WriteResult* result)
      UOPD_REQUIRES(write_mu_);
  absl::Status EvictTo(int64_t max_bytes, WriteResult* result) UOPD_REQUIRES(write_mu_);

  const FileOptions options_;
  bool read_only_ = false;  // this and the next two members do not change after Open
  FileId id_;
  int64_t migrated_from_ = 0;

  Mutex write_mu_;
  std::unique_ptr<sqlite::Database> writer_ UOPD_GUARDED_BY(write_mu_);  // null when read-only
  Mutex readers_mu_;
  std::condition_variable reader_free_;
  std::vector<std::unique_ptr<sqlite::Database>> readers_ UOPD_GUARDED_BY(readers_mu_);
  int reader_count_ UOPD_GUARDED_BY(readers_mu_) = 0;
};

}  // namespace uopd::cache
