// SPDX-License-Identifier: MIT
#include "server/worker/frame_channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "core/base/text.h"
#include "server/worker/fork/packet.h"

namespace uopd::worker {
namespace {

constexpr uint32_t kMagic = 0x57504f55;  // "UOPW"
constexpr uint32_t kInline = 0, kMemfd = 1;

// Both ends are the same program on the same machine, so byte order and layout are equal.
struct Header {
  uint32_t magic = kMagic;
  uint32_t where = kInline;
  uint64_t size = 0;
};
static_assert(sizeof(Header) == 16);

absl::Status Gone(const char* what) {
  return absl::UnavailableError(Cat("the other end is gone (", what, ")"));
}
absl::Status Malformed(const char* what) {
  return absl::DataLossError(Cat("malformed frame (", what, ")"));
}

// A memfd that holds the payload.
absl::StatusOr<UniqueFd> Store(std::string_view payload) {
  UniqueFd fd(memfd_create("uopd-frame", MFD_CLOEXEC));
  if (!fd) return absl::ResourceExhaustedError(Cat("memfd: ", std::strerror(errno)));
  for (size_t at = 0; at < payload.size();) {
    const ssize_t n = write(fd.get(), payload.data() + at, payload.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return absl::ResourceExhaustedError(Cat("memfd: ", std::strerror(errno)));
    at += static_cast<size_t>(n);
  }
  return fd;
}

absl::StatusOr<std::string> Fetch(int fd, uint64_t size) {
  struct stat info{};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return Malformed("descriptor is no memory");
  if (static_cast<uint64_t>(info.st_size) != size) return Malformed("memory has another size");
  std::string out(size, '\0');
  for (size_t at = 0; at < size;) {
    const ssize_t n = pread(fd, out.data() + at, size - at, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Malformed("memory shrank");  // with a mapping this would be a SIGBUS
    at += static_cast<size_t>(n);
  }
  return out;
}

// Timeout for poll(2): milliseconds until the limits have to be checked; -1: never.
int PollTimeoutMs(const WorkLimits& limits) {
  if (!limits.cancelled && limits.deadline == WorkLimits::Clock::time_point::max()) return -1;
  const auto left = limits.NextCheck() - WorkLimits::Clock::now();
  const int64_t ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<int64_t>(ms, 0, INT_MAX));
}

}  // namespace

absl::Status CheckWait(const WorkLimits& limits) {
  if (limits.IsCancelled()) return absl::CancelledError("cancelled while waiting for a worker");
  if (WorkLimits::Clock::now() >= limits.deadline) {
    return absl::DeadlineExceededError("the deadline passed while waiting for a worker");
  }
  return absl::OkStatus();
}

absl::Status FrameChannel::Wait(short events, const WorkLimits& limits) const {
  for (;;) {
    UOPD_TRY(CheckWait(limits));
    pollfd fds[2] = {{socket_.get(), events, 0}, {pidfd_, POLLIN, 0}};
    const int n = poll(fds, pidfd_ >= 0 ? 2 : 1, PollTimeoutMs(limits));
    if (n < 0 && errno != EINTR) return absl::InternalError(Cat("poll: ", std::strerror(errno)));
    if (n <= 0) continue;
    // What a process wrote before it died is still read.
    if (fds[0].revents != 0) return absl::OkStatus();
    if (fds[1].revents != 0) return Gone("process ended");
  }
}

absl::Status FrameChannel::SendAll(std::string_view data, int fd, const WorkLimits& limits) {
  while (!data.empty()) {
    const ssize_t n = SendPacket(socket_.get(), std::as_bytes(std::span(data)), fd, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      UOPD_TRY(Wait(POLLOUT, limits));
      continue;
    }
    if (n < 0) return Gone(std::strerror(errno));
    data.remove_prefix(static_cast<size_t>(n));
    fd = -1;  // the descriptor was sent with the first byte
  }
  return absl::OkStatus();
}

absl::Status FrameChannel::ReceiveAll(char* data, size_t size, UniqueFd* fd,
                                      const WorkLimits& limits) {
  for (size_t at = 0; at < size;) {
    UniqueFd came;
    const ssize_t n = ReceivePacket(
        socket_.get(), std::as_writable_bytes(std::span(data + at, size - at)), came, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      UOPD_TRY(Wait(POLLIN, limits));
      continue;
    }
    if (n < 0 && errno == EBADMSG) return Malformed("several descriptors");
    if (n < 0) return Gone(std::strerror(errno));
    if (n == 0) return Gone("end of stream");
    if (came) {
      if (fd == nullptr || *fd) return Malformed("unexpected descriptor");
      *fd = std::move(came);
    }
    at += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status FrameChannel::Send(std::string_view payload, const WorkLimits& limits) {
  Header header;
  header.size = payload.size();
  UniqueFd memory;
  if (payload.size() > kInlineBytes) {
    UOPD_ASSIGN(memory, Store(payload));
    header.where = kMemfd;
  }
  std::string data(reinterpret_cast<const char*>(&header), sizeof header);
  if (!memory) data += payload;
  return SendAll(data, memory.get(), limits);
}

absl::StatusOr<std::string> FrameChannel::Receive(const WorkLimits& limits, size_t max_bytes) {
  Header header;
  UniqueFd memory;
  UOPD_TRY(ReceiveAll(reinterpret_cast<char*>(&header), sizeof header, &memory, limits));
  if (header.magic != kMagic) return Malformed("not a header");
  if (header.size > max_bytes) return Malformed("too large");
  if (header.where == kMemfd) {
    if (!memory) return Malformed("no descriptor");
    return Fetch(memory.get(), header.size);
  }
  if (header.where != kInline || memory || header.size > kInlineBytes) {
    return Malformed("bad placement");
  }
  std::string out(header.size, '\0');
  UOPD_TRY(ReceiveAll(out.data(), out.size(), nullptr, limits));
  return out;
}

}  // namespace uopd::worker
