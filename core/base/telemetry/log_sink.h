// SPDX-License-Identifier: MIT
// Writes log lines without ever waiting for their reader.
//
// A line for a regular file is one write(2), so that lines of several processes may share a file. A
// pipe, socket or terminal gets a line only if it has room at once. If its reader is slow, stopped
// or gone, lines are lost, but no writer waits. A part of a lost line may have been written. The
// next output then begins on a new line and says how many lines were lost.
//
// Thread-safe.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/unique_fd.h"

namespace uopd {

class LogSink {
 public:
  // Appends to `path` from now on; empty: to stderr. On failure nothing changes. A named pipe keeps
  // what it has room for until a reader comes. A file that is made, now or by Reopen, gets `mode`.
  absl::Status Open(const std::string& path, unsigned mode) UOPD_EXCLUDES(mu_);
  // Opens the same path again.
  absl::Status Reopen() UOPD_EXCLUDES(mu_);
  // `line` ends with '\n'. `notice` makes the line that says how many lines were lost. Returns
  // false if this line was lost.
  bool Write(std::string_view line, std::string (*notice)(uint64_t lost)) UOPD_EXCLUDES(mu_);

 private:
  // How to write without waiting for a reader.
  enum class Way : uint8_t {
    kFile,         // write(2): a regular file has no reader
    kNonblocking,  // write(2) to a descriptor that does not block
    kSocket,       // send(2) that does not block
    kPoll,         // poll(2), then write(2), which may block if another process has filled the room
  };
  struct Target {
    UniqueFd owned;
    int fd = 2;  // stderr
    Way way = Way::kPoll;
  };
  static absl::StatusOr<Target> OpenPath(const std::string& path, unsigned mode);
  static Target OpenStderr();
  absl::Status SwitchTo(const std::string& path, unsigned mode) UOPD_REQUIRES(mu_);
  bool Put(std::string_view bytes) UOPD_REQUIRES(mu_);

  Mutex mu_;
  Target target_ UOPD_GUARDED_BY(mu_);
  bool torn_ UOPD_GUARDED_BY(mu_) = false;  // only a part of the last line was written
  uint64_t lost_ UOPD_GUARDED_BY(mu_) = 0;  // lines lost since the last one that was written
  std::string path_ UOPD_GUARDED_BY(mu_);
  unsigned mode_ UOPD_GUARDED_BY(mu_) = 0600;
};

}  // namespace uopd
