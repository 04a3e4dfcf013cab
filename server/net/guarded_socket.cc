// SPDX-License-Identifier: MIT
#include "server/net/guarded_socket.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "core/base/mutex.h"

// A sanitizer's own functions of these names, if the program has a sanitizer.
extern "C" {
ssize_t __interceptor_recvmsg(int, msghdr*, int) __attribute__((weak));        // NOLINT
ssize_t __interceptor_sendmsg(int, const msghdr*, int) __attribute__((weak));  // NOLINT
int __interceptor_close(int) __attribute__((weak));                            // NOLINT
}

namespace uopd::net {
namespace {

class GuardedSocket {
 public:
  GuardedSocket(int fd, const FrameLimits& limits, GuardEvents events, GuardedPeer peer)
      : events_(std::move(events)), guard_(limits) {
    if (peer.unfinished == nullptr) return;
    share_.emplace(std::move(peer.unfinished), std::move(peer.name), [this, fd] {
      if (Refuse("unfinished messages")) shutdown(fd, SHUT_RDWR);
    });
  }

  // False: the reader gets nothing.
  bool Receive(const msghdr& message, size_t size) {
    const absl::Cleanup done = [this] { received_.fetch_add(1, std::memory_order_release); };
    const auto now = FrameGuard::Clock::now();
    const char* reason = nullptr;
    uint64_t unfinished = 0;
    {
      MutexLock lock(mu_);
      if (refused_) return false;
      bytes_.received += size;
      bytes_.last_received = now;
      for (size_t i = 0; i < message.msg_iovlen && size > 0 && reason == nullptr; ++i) {
        const iovec& part = message.msg_iov[i];
        const size_t filled = std::min(size, part.iov_len);
        reason = guard_.Receive({static_cast<const uint8_t*>(part.iov_base), filled}, now);
        size -= filled;
      }
      unfinished = guard_.unfinished();
    }
    if (reason != nullptr) return Refuse(reason), false;
    if (share_) share_->Hold(unfinished);  // may end this connection
    return true;
  }
  void Send() {
    if (sent_.load(std::memory_order_relaxed)) return;
    MutexLock lock(mu_);
    bytes_.sent = true;
    guard_.OnSent();
    sent_.store(true, std::memory_order_relaxed);
  }
  // A call of the system has failed, or has said that there will be nothing more.
  void Fail(int error) {
    if (error == EAGAIN || error == EINTR || error == ENOBUFS) return;
    MutexLock lock(mu_);
    bytes_.ended = true;
  }
  // Called before the socket is closed, so that no other thread shuts down a new socket of the same
  // number.
  void Leave() {
    // gRPC closes a socket after the last Receive has ended. Receive uses share_ without the lock:
    // the load orders that use before this.
    received_.load(std::memory_order_acquire);
    share_.reset();
  }
  void Closed() {
    GuardedBytes bytes;
    {
      MutexLock lock(mu_);
      bytes = bytes_;
    }
    if (events_.on_closed) events_.on_closed(bytes);
  }

 private:
  // False: it was refused before.
  bool Refuse(const char* reason) {
    {
      MutexLock lock(mu_);
      if (std::exchange(refused_, true)) return false;
      bytes_.ended = true;
    }
    if (events_.on_refused) events_.on_refused(reason);
    return true;
  }

  const GuardEvents events_;
  std::atomic<bool> sent_ = false;
  std::atomic<uint64_t> received_ = 0;  // calls of Receive that have ended
  Mutex mu_;
  FrameGuard guard_ UOPD_GUARDED_BY(mu_);
  GuardedBytes bytes_ UOPD_GUARDED_BY(mu_);
  bool refused_ UOPD_GUARDED_BY(mu_) = false;
  std::optional<UnfinishedMessages::Share> share_;  // ends first: it calls Refuse
};

// By descriptor. The system gives out the smallest number that is free, so this is as many
// connections as there may be. Memory that nobody uses costs nothing.
std::array<std::atomic<GuardedSocket*>, 1 << 20> sockets;

std::atomic<GuardedSocket*>* PlaceOf(int fd) {
  return fd >= 0 && static_cast<size_t>(fd) < sockets.size() ? &sockets[static_cast<size_t>(fd)]
                                                             : nullptr;
}

// Null: not guarded. Whoever uses a descriptor does so before it is closed, so what is returned
// lives as long as the use.
GuardedSocket* Find(int fd) {
  const std::atomic<GuardedSocket*>* place = PlaceOf(fd);
  return place == nullptr ? nullptr : place->load(std::memory_order_acquire);
}

}  // namespace

bool GuardSocket(int fd, const FrameLimits& limits, GuardEvents events, GuardedPeer peer) {
  std::atomic<GuardedSocket*>* place = PlaceOf(fd);
  if (place == nullptr) return false;
  auto guarded = std::make_unique<GuardedSocket>(fd, limits, std::move(events), std::move(peer));
  delete place->exchange(guarded.release(), std::memory_order_acq_rel);
  return true;
}

}  // namespace uopd::net

// What gRPC, and everything else in this program, calls.
extern "C" {

__attribute__((visibility("default"))) ssize_t recvmsg(int fd, msghdr* message, int flags) {
  const ssize_t size = __interceptor_recvmsg != nullptr ? __interceptor_recvmsg(fd, message, flags)
                                                        : syscall(SYS_recvmsg, fd, message, flags);
  uopd::net::GuardedSocket* const guarded = uopd::net::Find(fd);
  if (guarded == nullptr || (flags & (MSG_PEEK | MSG_ERRQUEUE)) != 0) return size;
  if (size <= 0) {
    const int error = errno;
    guarded->Fail(size == 0 ? 0 : error);
    errno = error;
    return size;
  }
  if (guarded->Receive(*message, static_cast<size_t>(size))) return size;
  shutdown(fd, SHUT_RDWR);
  errno = ECONNRESET;
  return -1;
}

__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  uopd::net::GuardedSocket* const guarded = uopd::net::Find(fd);
  if (guarded != nullptr) guarded->Send();  // before, since the answer may come at once
  const ssize_t size = __interceptor_sendmsg != nullptr ? __interceptor_sendmsg(fd, message, flags)
                                                        : syscall(SYS_sendmsg, fd, message, flags);
  if (guarded != nullptr && size < 0) {
    const int error = errno;
    guarded->Fail(error);
    errno = error;
  }
  return size;
}

__attribute__((visibility("default"))) int close(int fd) {
  std::unique_ptr<uopd::net::GuardedSocket> guarded;
  if (uopd::net::Find(fd) != nullptr) {
    // Taken away before the number can belong to another file.
    guarded.reset(uopd::net::PlaceOf(fd)->exchange(nullptr, std::memory_order_acq_rel));
    if (guarded != nullptr) guarded->Leave();
  }
  const int result = __interceptor_close != nullptr ? __interceptor_close(fd)
                                                    : static_cast<int>(syscall(SYS_close, fd));
  if (guarded != nullptr) {
    const int error = errno;
    guarded->Closed();
    guarded = nullptr;
    errno = error;
  }
  return result;
}

}  // extern "C"
