// SPDX-License-Identifier: MIT
// The leases of the processes that share a folder, in a small SQLite file beside the cache file.
//
// Thread-safe. No call waits for the disk: the file is not synced, because no owner of a lease
// survives a loss of power. The leases of a process that ended, however it ended, are free at once
// for the others of its machine (life_lock.h); those of one that is frozen, or of another machine,
// end when they are not renewed. A file that is damaged or was deleted is made again. While no file
// can be used (a full disk, a folder that is not writable), leases hold only within this process,
// and the file is tried again later.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cache/base/lease/lease_marks.h"
#include "cache/base/lease/leases.h"
#include "cache/file/cache_file.h"
#include "cache/file/life_lock.h"
#include "cache/memory/memory_leases.h"
#include "cache/sqlite/database.h"
#include "core/base/mutex.h"

namespace uopd::cache {

// LeaseFile: one opened file of leases, a table in SQLite. Its caller decides what to do about
// failures.
//
// Used by one thread at a time. A lease lives for an hour at most, unless it is renewed, and not
// longer than its owner's process, if that can be told (life_lock.h). Failures are statuses with
// the codes of sqlite/database.h.
class LeaseFile {
 public:
  // `life` is that of this process, and outlives the file.
  static absl::StatusOr<std::unique_ptr<LeaseFile>> Open(const std::string& path,
                                                         int busy_timeout_ms, const LifeLock& life);

  const FileId& id() const { return id_; }

  absl::StatusOr<LeaseResult> TryLease(const Digest& address, std::string_view owner,
                                       int64_t ttl_us, int64_t now_us);
  absl::Status Renew(const Digest& address, int64_t token, int64_t ttl_us, int64_t now_us);
  absl::Status Release(const Digest& address, int64_t token);

  struct Lease {
    std::string owner;
    int64_t token = 0, expires_us = 0;
    std::string mark;  // of the owner's process; empty: not known
  };
  // The lease of the address; a lease of zeros if there is none.
  absl::StatusOr<Lease> Read(const Digest& address);
  bool IsHeld(const Lease& lease, int64_t now_us) const;

  // The marks of leases that another authority grants (LeaseMarks).
  absl::Status PutMark(const Digest& address, int64_t token, int64_t now_us);
  absl::Status DropMark(const Digest& address, int64_t token);
  absl::StatusOr<std::optional<int64_t>> TokenOfDead(const Digest& address);

 private:
  LeaseFile(std::unique_ptr<sqlite::Database> db, FileId id, const LifeLock& life)
      : db_(std::move(db)), id_(id), life_(life) {}

  const std::unique_ptr<sqlite::Database> db_;
  const FileId id_;
  const LifeLock& life_;
};

struct FileLeasesOptions {
  std::string folder;  // exists
  int busy_timeout_ms = 1000;
  int64_t retry_us = 30 * int64_t{1000000};  // after a failure
  NowFn now = WallClockUs;
  // Called with a sentence for the log when the file stops working. From any thread.
  std::function<void(const std::string&)> on_failure;
};

class FileLeases final : public Leases, public LeaseMarks {
 public:
  explicit FileLeases(FileLeasesOptions options);

  LeaseResult TryLease(const Digest& address, std::string_view owner, int64_t ttl_us) override
      UOPD_EXCLUDES(mu_);
  absl::Status Renew(const Digest& address, int64_t token, int64_t ttl_us) override
      UOPD_EXCLUDES(mu_);
  absl::Status Release(const Digest& address, int64_t token) override UOPD_EXCLUDES(mu_);
  absl::Status CheckNewest(const Digest& address, int64_t token) override UOPD_EXCLUDES(mu_);
  bool IsHeld(const Digest& address) override UOPD_EXCLUDES(mu_);

  // LeaseMarks. While no file can be used there are no marks.
  void Took(const Digest& address, int64_t token) override UOPD_EXCLUDES(mu_);
  void Forget(const Digest& address, int64_t token) override UOPD_EXCLUDES(mu_);
  std::optional<int64_t> TokenOfDead(const Digest& address) override UOPD_EXCLUDES(mu_);

 private:
  // The file to use now; null if there is none. Opens the file if none is open and a retry is due.
  LeaseFile* File() UOPD_REQUIRES(mu_);
  absl::StatusOr<std::unique_ptr<LeaseFile>> OpenOrReplace() UOPD_REQUIRES(mu_);
  // Handles `error` of the file: closes the file, unless another process only has its lock.
  void Drop(const absl::Status& error) UOPD_REQUIRES(mu_);
  // True if `token` was granted while there was no file.
  bool IsLocal(const Digest& address, int64_t token);

  const FileLeasesOptions options_;
  const std::string path_;
  const LifeLock life_;
  MemoryLeases local_;  // while there is no file
  Mutex mu_;
  std::unique_ptr<LeaseFile> file_ UOPD_GUARDED_BY(mu_);
  bool damaged_ UOPD_GUARDED_BY(mu_) = false;     // the file at the path is to be deleted
  int64_t retry_at_us_ UOPD_GUARDED_BY(mu_) = 0;  // while there is no file
};

}  // namespace uopd::cache
