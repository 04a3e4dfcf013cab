// SPDX-License-Identifier: MIT
// Moves a cache file out of the way, and prevents the daemons that share a folder from doing so at
// the same time.
#pragma once
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace uopd::cache {

// Holds an advisory lock on a file for its lifetime. The locked file is not the cache file, because
// closing the cache file would drop SQLite's locks.
class FolderLock {
 public:
  // Waits at most five seconds for other processes. held() is false if the folder is not writable.
  explicit FolderLock(const std::string& path);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  bool held() const { return held_; }

 private:
  int fd_ = -1;
  bool held_ = false;
};

// Renames `path` and its journal to the returned name, `path`.`kind`-N with the next free N. Keeps
// the two newest files of this kind. REQUIRES: the folder lock is held.
absl::StatusOr<std::string> SetAside(const std::string& path, std::string_view kind);

// Renames the file `old_path`, with its journal, to `path` if there is no file at `path` yet.
// REQUIRES: the folder lock is held.
void AdoptOldName(const std::string& old_path, const std::string& path);

// Removes files named `prefix`N`suffix` of the folder that nobody has written for 30 days, with
// their journals: what a daemon of another version kept while it was run in place of this one.
// REQUIRES: the folder lock is held.
void RemoveUnused(const std::string& folder, std::string_view prefix, std::string_view suffix);

// Makes the folder and its parents.
absl::Status MakeFolder(const std::string& path);

}  // namespace uopd::cache
