// SPDX-License-Identifier: MIT
// Moves a cache file out of the way, and keeps the daemons that share a folder from doing so at
// once.
#pragma once
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace uopd::cache {

// Holds an advisory lock on a file for its lifetime. Not on the cache file itself: closing that
// would drop SQLite's locks.
class FolderLock {
 public:
  // Waits at most five seconds for other processes. held() is false when the folder cannot be
  // written.
  explicit FolderLock(const std::string& path);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  bool held() const { return held_; }

 private:
  int fd_ = -1;
  bool held_ = false;
};

// Renames `path` to the returned name, `path`.`kind`-N with the next free N, and its log with it.
// Keeps the two newest. REQUIRES: the folder lock is held.
absl::StatusOr<std::string> SetAside(const std::string& path, std::string_view kind);

// Renames the file `old_path`, with its journal, to `path` if there is no file at `path` yet.
// REQUIRES: the folder lock is held.
void AdoptOldName(const std::string& old_path, const std::string& path);

// Makes the folder and its parents.
absl::Status MakeFolder(const std::string& path);

}  // namespace uopd::cache
