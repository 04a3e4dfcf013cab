// SPDX-License-Identifier: MIT
// Keeps a usable cache file open: opens the file, replaces a damaged one, and tries again later if
// that fails.
//
//            opened                              full, not writable
//   (start) --------> kOk / kRecovered <-----------------------------> kReadOnly
//      |                     |    ^        after retry_us, or opened        |
//      | cannot open         |    | damaged: set aside, opened afresh       | cannot be read
//      v                     v    |                                         v
//   kMemory <--------------------------------------------------------------- (retried every
//   retry_us)
//
// A file that a newer version wrote is not touched: so a daemon of the version before, after a
// rollback, keeps its rows in another file beside it, and the newer version finds its own again.
//
// Thread-safe. Callers hold the file by shared_ptr. They report a file that fails, and the keeper
// decides what to do. Files are opened in the constructor, in Report and in Tick. Current and
// Writable never wait for the disk.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "cache/file/cache_file.h"
#include "core/base/mutex.h"

namespace uopd::cache {

struct KeeperOptions {
  std::string folder;
  FileOptions file;  // its path is set by the keeper
  int64_t retry_us = 30 * int64_t{1000000};
  NowFn now = WallClockUs;
  std::function<void(const Health&)> on_change;  // from any thread; may only call health()
};

class FileKeeper {
 public:
  explicit FileKeeper(KeeperOptions options);

  std::shared_ptr<CacheFile> Current() const UOPD_EXCLUDES(mu_);   // null: memory only
  std::shared_ptr<CacheFile> Writable() const UOPD_EXCLUDES(mu_);  // null: puts go to memory
  // Reports that `failed` returned `error`. Does nothing if `failed` is no longer the current file,
  // or if it is only busy.
  void Report(const std::shared_ptr<CacheFile>& failed, const absl::Status& error)
      UOPD_EXCLUDES(mu_, open_mu_);
  // Notices that the file at the path was replaced, and retries after retry_us what has failed.
  void Tick() UOPD_EXCLUDES(mu_, open_mu_);
  Health health() const UOPD_EXCLUDES(mu_);

 private:
  struct Opened {
    std::shared_ptr<CacheFile> file;
    Health health;
  };
  // `damaged` is the file to set aside, if it is still the one at the path. Null: the file is
  // opened for another reason.
  Opened Open(const CacheFile* damaged, const std::string& why) UOPD_REQUIRES(open_mu_);
  // Does what Open does, with the file at `path`.
  Opened OpenAt(const std::string& path, const CacheFile* damaged, const std::string& why)
      UOPD_REQUIRES(open_mu_);
  void Adopt(Opened opened) UOPD_EXCLUDES(mu_);

  const KeeperOptions options_;
  const std::string lock_path_;
  Mutex open_mu_;  // locked before mu_; held while opening, so that one thread at a time opens
  mutable Mutex mu_;
  std::shared_ptr<CacheFile> file_ UOPD_GUARDED_BY(mu_);
  Health health_ UOPD_GUARDED_BY(mu_);
  Health opened_health_ UOPD_GUARDED_BY(mu_);  // the health again once writing works again
  bool writes_blocked_ UOPD_GUARDED_BY(mu_) = false;
  int64_t retry_at_us_ UOPD_GUARDED_BY(mu_) = 0;  // 0: nothing to retry
};

}  // namespace uopd::cache
