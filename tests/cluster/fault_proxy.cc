// SPDX-License-Identifier: MIT
#include "tests/cluster/fault_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace uopd::cluster {
namespace {

constexpr size_t kMostHeld = size_t{8} << 20;  // of one direction; then the source waits

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in out = {};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  out.sin_port = htons(port);
  return out;
}

void Quick(int fd) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

// The peer gets a reset when the descriptor is closed.
void ResetOnClose(int fd) {
  const linger now = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

}  // namespace

FaultProxy::FaultProxy(uint16_t target) : target_(target) {
  listener_.Reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  wake_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener_.get(), 128) != 0)
    return;
  getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Loop(); });
}

FaultProxy::~FaultProxy() {
  over_ = true;
  eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

void FaultProxy::Set(Fault fault, std::chrono::milliseconds delay) {
  {
    const MutexLock lock(mu_);
    fault_ = fault;
    delay_ = delay;
    ++changes_;
  }
  eventfd_write(wake_.get(), 1);
}

void FaultProxy::Accept(Fault fault) {
  for (;;) {
    UniqueFd in(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!in) return;
    if (fault == Fault::kReset) {
      ResetOnClose(in.get());
      continue;
    }
    UniqueFd out(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = Loopback(target_);
    // Blocks for no longer than a round trip of loopback. A target that is gone refuses, and so
    // does the proxy.
    if (connect(out.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      ResetOnClose(in.get());
      continue;
    }
    fcntl(out.get(), F_SETFL, O_NONBLOCK);
    Quick(in.get());
    Quick(out.get());
    Pair& pair = pairs_.emplace_back();
    pair.in = std::move(in);
    pair.out = std::move(out);
  }
}

bool FaultProxy::Move(Pair& pair, short in_events, short out_events,
                      std::chrono::milliseconds delay) {
  const auto now = Clock::now();
  const auto read = [&](int from, Flow& flow) {
    char buffer[65536];
    while (!flow.ended && flow.held_bytes < kMostHeld) {
      const ssize_t n = recv(from, buffer, sizeof buffer, 0);
      if (n < 0) return errno == EAGAIN || errno == EINTR;
      if (n == 0) {
        flow.ended = true;
        return true;
      }
      flow.held.push_back({std::string(buffer, static_cast<size_t>(n)), now + delay});
      flow.held_bytes += static_cast<size_t>(n);
    }
    return true;
  };
  const auto write = [&](int to, Flow& flow) {
    while (!flow.held.empty() && flow.held.front().due <= now) {
      std::string& bytes = flow.held.front().bytes;
      const ssize_t n = send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0) return errno == EAGAIN || errno == EINTR;
      flow.held_bytes -= static_cast<size_t>(n);
      if (static_cast<size_t>(n) < bytes.size()) {
        bytes.erase(0, static_cast<size_t>(n));
        return true;
      }
      flow.held.pop_front();
    }
    if (flow.held.empty() && flow.ended && !flow.passed) {
      shutdown(to, SHUT_WR);
      flow.passed = true;
    }
    return true;
  };
  constexpr short kReadable = POLLIN | POLLHUP | POLLERR;
  if ((in_events & kReadable) != 0 && !read(pair.in.get(), pair.forth)) return false;
  if ((out_events & kReadable) != 0 && !read(pair.out.get(), pair.back)) return false;
  return write(pair.out.get(), pair.forth) && write(pair.in.get(), pair.back) &&
         !(pair.forth.passed && pair.back.passed);
}

void FaultProxy::Loop() {
  uint64_t seen = 0;
  while (!over_) {
    Fault fault;
    std::chrono::milliseconds delay;
    bool changed;
    {
      const MutexLock lock(mu_);
      fault = fault_;
      delay = delay_;
      changed = changes_ != seen;
      seen = changes_;
    }
    if (changed && fault == Fault::kHalfOpen)
      for (Pair& pair : pairs_) pair.dead = true;
    if (fault == Fault::kReset) {
      for (Pair& pair : pairs_) ResetOnClose(pair.in.get()), ResetOnClose(pair.out.get());
      pairs_.clear();
    }
    std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    auto next = Clock::now() + std::chrono::seconds(1);
    for (Pair& pair : pairs_) {
      const bool still = pair.dead || fault == Fault::kPartition;
      const auto wants = [&](const Flow& from, const Flow& to) {
        if (still) return short{0};
        const bool due = !to.held.empty() && to.held.front().due <= Clock::now();
        if (!to.held.empty() && !due) next = std::min(next, to.held.front().due);
        return static_cast<short>((from.ended || from.held_bytes >= kMostHeld ? 0 : POLLIN) |
                                  (due ? POLLOUT : 0));
      };
      // A descriptor of -1 is not looked at. Without events poll would still report a hangup, again
      // and again, until the bytes that are held are due.
      const auto add = [&](const UniqueFd& fd, short events) {
        polled.push_back({events == 0 ? -1 : fd.get(), events, 0});
      };
      add(pair.in, wants(pair.forth, pair.back));
      add(pair.out, wants(pair.back, pair.forth));
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
    poll(polled.data(), polled.size(), static_cast<int>(std::max<int64_t>(left, 0)));
    eventfd_t ignored;
    if (polled[0].revents != 0) eventfd_read(wake_.get(), &ignored);
    size_t at = 2;
    for (auto it = pairs_.begin(); it != pairs_.end(); at += 2) {
      const bool still = it->dead || fault == Fault::kPartition;
      const bool lives = still || Move(*it, polled[at].revents, polled[at + 1].revents, delay);
      it = lives ? std::next(it) : pairs_.erase(it);
    }
    if (polled[1].revents != 0) Accept(fault);
  }
}

}  // namespace uopd::cluster
