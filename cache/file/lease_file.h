// SPDX-License-Identifier: MIT
// LeaseFile: one opened file of leases, a table in SQLite. Its caller decides what to do about
// failures.
//
// Used by one thread at a time. A lease lives for an hour at most, unless it is renewed, and not longer than its owner's
// process, if that can be told (life_lock.h). Failures are statuses with the codes of sqlite/database.h.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cache/base/lease/leases.h"
#include "cache/file/cache_file.h"
#include "cache/file/life_lock.h"
#include "cache/sqlite/database.h"

namespace uopd::cache {

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

}  // namespace uopd::cache
