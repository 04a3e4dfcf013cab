// SPDX-License-Identifier: MIT
// The latest lines of the log, in memory, for operators (uopctl diagnose): as they are written, but
// without the values that a client may have chosen. Of an error only its code stays.
//
// Bounded in lines and bytes. Thread-safe.
#pragma once
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/mutex.h"

namespace uopd {

class LogTail {
 public:
  static constexpr size_t kMostLines = 1000, kMostBytes = size_t{256} << 10, kMostLine = 1024;
  // The tail of this process's log.
  static LogTail& Global();

  // A longer line is cut. Without a newline at its end.
  void Add(std::string_view line) UOPD_EXCLUDES(mu_);
  // At most so many lines, the oldest first.
  std::vector<std::string> Latest(size_t most = kMostLines) const UOPD_EXCLUDES(mu_);

 private:
  mutable Mutex mu_;
  std::deque<std::string> lines_ UOPD_GUARDED_BY(mu_);
  size_t bytes_ UOPD_GUARDED_BY(mu_) = 0;
};

// What the tail has of the value of a field: all of it where the daemon itself makes values of this
// key, the code of an error, otherwise nothing.
std::string_view TailValue(std::string_view key, std::string_view value);

}  // namespace uopd
