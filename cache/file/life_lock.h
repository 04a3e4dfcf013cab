// SPDX-License-Identifier: MIT
// LifeLock: shows the processes that share a folder whether the process that left its mark there is
// dead.
//
// Each LifeLock locks one byte of a file in the folder, chosen at random, and its mark says which.
// The system drops the lock when the process ends, however it ends. So a byte without a lock means
// that the process of the mark is gone. A process that is frozen keeps its lock, and so does one in
// another container of the machine.
//
// Who says "dead" must be sure. Marks of another boot, of another machine (which may see the same
// folder by a network), and of another file (somebody deleted it) are never called dead, and
// neither is one on a system that has no such locks. Thread-safe. The file stays in the folder,
// empty.
#pragma once
#include <sys/types.h>

#include <string>
#include <string_view>

#include "core/base/unique_fd.h"

namespace uopd::cache {

class LifeLock {
 public:
  // Makes the file if it is not there. Failures cost the mark, and nothing else.
  explicit LifeLock(const std::string& path);
  LifeLock(const LifeLock&) = delete;
  LifeLock& operator=(const LifeLock&) = delete;

  // The mark of this object, at most 128 bytes of text. Empty: there is none.
  const std::string& mark() const { return mark_; }
  // True only if the object of the mark is gone for certain. Any text.
  bool IsDead(std::string_view mark) const;

 private:
  UniqueFd file_;
  std::string place_;  // of a mark: the boot and the file, before the number of the byte
  std::string mark_;
};

}  // namespace uopd::cache
