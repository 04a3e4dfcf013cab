// SPDX-License-Identifier: MIT
#include "core/base/log_sink.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace uopd {

absl::Status LogSink::Open(const std::string& path) {
  MutexLock lock(mu_);
  return SwitchTo(path);
}

absl::Status LogSink::Reopen() {
  MutexLock lock(mu_);
  return SwitchTo(std::string(path_));
}

absl::Status LogSink::SwitchTo(const std::string& path) {
  int fd = STDERR_FILENO;
  if (!path.empty()) {
    // O_NONBLOCK: to open a named pipe must not wait for its reader either.
    fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0640);
    if (fd < 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("log file (", path, ") cannot be opened: ", std::strerror(errno)));
    }
  }
  struct stat info{};
  may_wait_ = fstat(fd, &info) != 0 || !S_ISREG(info.st_mode);
  if (fd_ != STDERR_FILENO) close(fd_);
  fd_ = fd;
  path_ = path;
  return absl::OkStatus();
}

bool LogSink::Write(std::string_view line, std::string (*notice)(uint64_t lost)) {
  MutexLock lock(mu_);
  if (lost_ > 0) {
    const std::string said = absl::StrCat(torn_ ? "\n" : "", notice(lost_));
    if (Put(said)) lost_ = 0;
  }
  if (lost_ == 0 && Put(line)) return true;
  ++lost_;
  return false;
}

bool LogSink::Put(std::string_view bytes) {
  const size_t all = bytes.size();
  while (!bytes.empty()) {
    if (may_wait_) {
      pollfd fd{fd_, POLLOUT, 0};
      if (poll(&fd, 1, 0) <= 0) break;
    }
    // What poll calls writable has room for so many bytes.
    const size_t most = may_wait_ ? std::min<size_t>(bytes.size(), PIPE_BUF) : bytes.size();
    const ssize_t n = write(fd_, bytes.data(), most);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  if (bytes.size() < all) torn_ = !bytes.empty();
  return bytes.empty();
}

}  // namespace uopd
