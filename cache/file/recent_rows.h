// SPDX-License-Identifier: MIT
// RecentRows: the rows that wait to be written to the cache file, in a file of this process, so
// that a process which is killed loses none of them.
//
// A commit waits for the disk, for milliseconds or, on a busy disk, for much longer; the rows after
// it wait, too. A row is appended here as soon as it waits. That takes microseconds, because nobody
// waits for the disk: a process that is killed leaves what it has written to the system. (A loss of
// power may lose these rows.) Once all that waits is in the cache file, this file is emptied.
//
// Each process that writes has a file of its own in the folder of the cache, with a lock that ends
// with the process. Who opens the cache takes over the files without a lock. Rows that are in the
// cache already do no harm. A record that was cut is the end of its file; each row has a checksum.
//
// Thread-safe. Failures cost the protection, and nothing else.
#pragma once
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "cache/base/row/row.h"
#include "core/base/mutex.h"

namespace uopd::cache {

class RecentRows {
 public:
  static constexpr int64_t kMaxBytes = int64_t{64} << 20;  // of the file; more rows are not kept

  // Makes the file. Empty folder: keeps nothing.
  explicit RecentRows(std::string folder);
  // Leaves the file behind if there are rows in it.
  ~RecentRows();
  RecentRows(const RecentRows&) = delete;
  RecentRows& operator=(const RecentRows&) = delete;

  void Keep(const Row& row) UOPD_EXCLUDES(mu_);
  void Clear() UOPD_EXCLUDES(mu_);
  // Passes on the rows of processes that have ended, the oldest of each first, and removes their
  // files. A file stays, for the next who opens the cache, if `take` fails for one of its rows.
  void TakeOver(const std::function<absl::Status(Row)>& take);

 private:
  const std::string folder_;
  std::string path_;  // empty: there is no file
  int fd_ = -1;
  Mutex mu_;
  int64_t size_ UOPD_GUARDED_BY(mu_) = 0;
};

}  // namespace uopd::cache
