// SPDX-License-Identifier: MIT
#include "server/net/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "server/net/guarded_socket.h"

namespace uopd::net {
namespace {

constexpr std::chrono::milliseconds kTick{500};
constexpr std::chrono::seconds kAtOnce{2};
constexpr std::chrono::milliseconds kOutOfDescriptors{20};  // pause before the next attempt

bool Watch(int epoll, int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

std::string PeerOf(int fd) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return "gone";
  char text[INET6_ADDRSTRLEN] = "";
  if (peer.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in&>(peer).sin_addr, text, sizeof text);
    return text;
  }
  if (peer.ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<sockaddr_in6&>(peer).sin6_addr, text, sizeof text);
    return text;
  }
  ucred user{};
  size = sizeof user;
  getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &size);
  return Cat("user ", user.uid);
}

// 0: the descriptor is not open, or is not a socket. The number may belong to another thread, which
// may be closing it now; any result is right then. fstat is not used, because ThreadSanitizer
// reports fstat beside close as a data race.
uint64_t InodeOf(int fd) {
  struct statx status{};
  const bool known = statx(fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_INO, &status) == 0;
  return known && S_ISSOCK(status.stx_mode) ? status.stx_ino : 0;
}

// 0: everything is confirmed, or the descriptor is not open any more. Any result is right for a
// descriptor that another thread is closing now, as in InodeOf. ThreadSanitizer would report ioctl
// beside close as a data race, so the system is called directly.
uint64_t UnconfirmedBytesOf(int fd) {
  int bytes = 0;
  return syscall(SYS_ioctl, fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<uint64_t>(bytes)
                                                                    : 0;
}

}  // namespace

Acceptor::Acceptor(const Listener& listener, AcceptorOptions options, HandOver hand_over)
    : listener_(listener),
      options_(std::move(options)),
      hand_over_(std::move(hand_over)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      unfinished_(std::make_shared<UnfinishedMessages>(options_.max_unfinished_bytes)) {
  Watch(epoll_.get(), stop_.get(), EPOLLIN);
  for (const UniqueFd& socket : listener_.sockets()) Watch(epoll_.get(), socket.get(), EPOLLIN);
  thread_ = std::thread([this] { Run(); });
}

Acceptor::~Acceptor() {
  *ending_ = true;
  eventfd_write(stop_.get(), 1);
  thread_.join();
  Count(-static_cast<double>(open_.size()));
}

uint64_t Acceptor::UnconfirmedBytes() {
  MutexLock lock(mu_);
  uint64_t out = 0;
  for (const Open& open : open_) {
    if (InodeOf(open.fd) == open.inode) out += UnconfirmedBytesOf(open.fd);
  }
  return out;
}

void Acceptor::Run() {
  std::array<epoll_event, 64> events;
  for (;;) {
    const bool idle = silent_.empty() && open_.empty() && !freed_.waits();
    const int timeout = idle ? -1 : static_cast<int>(kTick.count());
    const int n = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout);
    for (int i = 0; i < n; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == stop_.get()) return;
      if (auto it = by_fd_.find(fd); it != by_fd_.end()) {
        Listen(it->second);
      } else if (std::any_of(listener_.sockets().begin(), listener_.sockets().end(),
                             [fd](const UniqueFd& socket) { return socket.get() == fd; })) {
        Accept(fd);
      }
    }
    Tick();
  }
}

void Acceptor::Tick() {
  EndSilent();
  const auto now = Clock::now();
  if (now < next_tick_) return;
  next_tick_ = now + kTick;
  ForgetClosed();
  freed_.Tick(now);
}

void Acceptor::Accept(int listener) {
  // Accept only a few at a time, so that connections that have sent something get their turn in
  // between.
  for (int i = 0; i < 16; ++i) {
    UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (!full) return;
      UOPD_LOG(kWarn, "no connection accepted", {"reason", "out of descriptors or memory"});
      if (!silent_.empty()) {
        Drop(silent_.begin(), "descriptors");
      } else {
        std::this_thread::sleep_for(kOutOfDescriptors);
      }
      return;
    }
    const int number = fd.get();
    silent_.push_back({std::move(fd), listener, Clock::now()});
    const auto added = std::prev(silent_.end());
    by_fd_[number] = added;
    if (silent_.size() > options_.max_silent) Drop(silent_.begin(), "silent");
    // Edge-triggered: bytes that were seen but are not enough do not wake the thread again.
    Watch(epoll_.get(), number, EPOLLIN | EPOLLRDHUP | EPOLLET);
  }
}

void Acceptor::Listen(std::list<Silent>::iterator silent) {
  std::array<char, 64> bytes;
  const size_t wanted = std::min(options_.greeting.size(), bytes.size());
  const ssize_t n = recv(silent->fd.get(), bytes.data(), wanted, MSG_PEEK | MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0 && wanted > 0) return Drop(silent, "hung up");
  const std::string_view said(bytes.data(), static_cast<size_t>(std::max<ssize_t>(n, 0)));
  if (!options_.greeting.starts_with(said)) return Drop(silent, "another greeting");
  if (said.size() == wanted) Admit(silent);
}

void Acceptor::Admit(std::list<Silent>::iterator silent) {
  const int fd = silent->fd.get();
  std::string peer = PeerOf(fd);
  if (open_.size() >= options_.max_connections || peers_.Of(peer) >= options_.max_per_peer) {
    ForgetClosed();
  }
  if (open_.size() >= options_.max_connections) return Drop(silent, "limits.connections");
  if (peers_.Of(peer) >= options_.max_per_peer) return Drop(silent, "limits.peer_connections");
  if (!offenders_->Admits(peer, Clock::now())) return Drop(silent, "peer sent too much");
  if (options_.frames && !Guard(fd, peer)) return Drop(silent, "descriptors");
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  const int listener = silent->listener;
  {
    MutexLock lock(mu_);
    open_.push_back({peer, fd, InodeOf(fd)});
  }
  peers_.Add(peer);
  Count(1);
  by_fd_.erase(fd);
  silent->fd.Release();
  silent_.erase(silent);
  hand_over_(listener, fd);
}

bool Acceptor::Guard(int fd, const std::string& peer) {
  const auto offend = [peer, offenders = offenders_,
                       ended = options_.on_ended](const char* reason) {
    offenders->Add(peer, Clock::now());
    if (ended) ended(peer, reason);
  };
  return GuardSocket(fd, *options_.frames,
                     {.on_refused = offend,
                      .on_closed =
                          [offend, ending = ending_](const GuardedBytes& bytes) {
                            // The server ends a connection beside words of its peer: they were
                            // wrong, unless it ends all.
                            const bool at_once = Clock::now() - bytes.last_received < kAtOnce;
                            if (!bytes.ended && at_once && !*ending)
                              offend("refused by the server");
                          }},
                     {peer, unfinished_});
}

void Acceptor::Drop(std::list<Silent>::iterator silent, const char* reason) {
  if (options_.on_refused) options_.on_refused(reason);
  UOPD_LOG(kDebug, "connection refused", {"peer", PeerOf(silent->fd.get())}, {"reason", reason});
  by_fd_.erase(silent->fd.get());
  silent_.erase(silent);
}

void Acceptor::Count(double change) {
  if (options_.connections != nullptr) options_.connections->Add(change);
}

void Acceptor::EndSilent() {
  const auto since = Clock::now() - options_.greeting_limit;
  while (!silent_.empty() && silent_.front().since < since) Drop(silent_.begin(), "silent");
}

void Acceptor::ForgetClosed() {
  const size_t before = open_.size();
  {
    MutexLock lock(mu_);
    std::erase_if(open_, [this](const Open& open) {
      if (InodeOf(open.fd) == open.inode) return false;
      peers_.Remove(open.peer);
      return true;
    });
  }
  if (open_.size() == before) return;
  Count(static_cast<double>(open_.size()) - static_cast<double>(before));
  freed_.OnClosed(Clock::now());
}

}  // namespace uopd::net
