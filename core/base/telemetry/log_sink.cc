// SPDX-License-Identifier: MIT
#include "core/base/telemetry/log_sink.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/output_file.h"

namespace uopd {
namespace {

constexpr size_t kPipeRoom = 4096;  // PIPE_BUF: the room that a pipe has when poll says POLLOUT

}  // namespace

absl::Status LogSink::Open(const std::string& path, unsigned mode) {
  MutexLock lock(mu_);
  return SwitchTo(path, mode);
}

absl::Status LogSink::Reopen() {
  MutexLock lock(mu_);
  return SwitchTo(std::string(path_), mode_);
}

absl::StatusOr<LogSink::Target> LogSink::OpenPath(const std::string& path, unsigned mode) {
  // The log goes to pipes and terminals too, and through links of this user: but not where somebody
  // else wants it.
  UOPD_ASSIGN(const std::string real, FollowOwnLinks(path));
  struct stat info{};
  const bool is_link = lstat(real.c_str(), &info) == 0 && S_ISLNK(info.st_mode);  // of a stream
  const bool is_pipe = stat(real.c_str(), &info) == 0 && S_ISFIFO(info.st_mode);
  // Opening a named pipe for writing alone would fail while nobody reads it.
  const int access = is_pipe ? O_RDWR : O_WRONLY;
  Target out;
  const int flags = O_APPEND | O_CLOEXEC | O_NONBLOCK | (is_link ? 0 : O_NOFOLLOW);
  out.owned.Reset(open(real.c_str(), access | flags));
  if (!out.owned && errno == ENOENT) {
    out.owned.Reset(open(real.c_str(), access | flags | O_CREAT | O_EXCL, 0600));
    if (out.owned) {
      // The umask does not count: somebody chose the mode.
      if (fchmod(out.owned.get(), static_cast<mode_t>(mode)) != 0) out.owned.Reset();
    } else if (errno == EEXIST) {
      out.owned.Reset(open(real.c_str(), access | flags));  // somebody else has made it
    }
  }
  if (!out.owned) {
    return absl::FailedPreconditionError(
        absl::StrCat("log file (", path, ") cannot be opened: ", std::strerror(errno)));
  }
  out.fd = out.owned.get();
  const bool regular = fstat(out.fd, &info) == 0 && S_ISREG(info.st_mode);
  out.way = regular ? Way::kFile : Way::kNonblocking;
  return out;
}

LogSink::Target LogSink::OpenStderr() {
  Target out;
  struct stat info{};
  if (fstat(STDERR_FILENO, &info) != 0) return out;
  if (S_ISREG(info.st_mode)) {
    out.way = Way::kFile;
  } else if (S_ISSOCK(info.st_mode)) {
    out.way = Way::kSocket;
  } else {
    // O_NONBLOCK belongs to the open file, which other processes may share. So stderr is opened
    // again instead of being changed.
    constexpr int kFlags = O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    out.owned.Reset(open("/proc/self/fd/2", kFlags));
    if (out.owned) {
      out.fd = out.owned.get();
      out.way = Way::kNonblocking;
    }
  }
  return out;
}

absl::Status LogSink::SwitchTo(const std::string& path, unsigned mode) {
  if (path.empty()) {
    target_ = OpenStderr();
  } else {
    UOPD_ASSIGN(target_, OpenPath(path, mode));
  }
  if (path != path_) torn_ = false;
  path_ = path;
  mode_ = mode;
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
    size_t most = bytes.size();
    if (target_.way == Way::kPoll) {
      pollfd fd{target_.fd, POLLOUT, 0};
      if (poll(&fd, 1, 0) <= 0) break;
      most = std::min(most, kPipeRoom);
    }
    const ssize_t n = target_.way == Way::kSocket
                          ? send(target_.fd, bytes.data(), most, MSG_DONTWAIT | MSG_NOSIGNAL)
                          : write(target_.fd, bytes.data(), most);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  if (bytes.size() < all) torn_ = !bytes.empty();
  return bytes.empty();
}

}  // namespace uopd
