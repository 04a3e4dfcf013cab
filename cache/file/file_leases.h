// SPDX-License-Identifier: MIT
// The leases of the processes that share a folder, in a small SQLite file beside the cache file.
//
// Thread-safe. No call waits for the disk: the file is not synced, because no owner of a lease
// survives a loss of power. The leases of a process that ended, however it ended, are free at once for the others of its machine
// (life_lock.h); those of one that is frozen, or of another machine, end when they are not renewed. A file that is damaged or was deleted is made again. While no file can
// be used (a full disk, a folder that is not writable), leases hold only within this process, and
// the file is tried again later.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cache/base/lease/lease_marks.h"
#include "cache/file/lease_file.h"
#include "cache/file/life_lock.h"
#include "cache/memory/memory_leases.h"
#include "core/base/mutex.h"

namespace uopd::cache {

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
