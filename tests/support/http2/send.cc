// SPDX-License-Identifier: MIT
// Many connections of one flood, by one thread: sockets that do not block, and poll.
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "core/base/unique_fd.h"
#include "tests/support/http2/floods.h"
#include "tests/support/http2/frames.h"
#include "tests/support/ipv4.h"

namespace uopd::test::http2 {
namespace {

constexpr int kWaitMs = 20;

class Connection {
 public:
  Connection(const Flood& flood, UniqueFd fd) : flood_(flood), fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  bool open() const { return static_cast<bool>(fd_); }
  // True if it has something to send.
  bool sends() const { return sent_ < waiting_.size() || !silent_; }

  // Does what it can without waiting. Returns the number of bytes that went out.
  uint64_t Go() {
    if ((flood_.reads || !heard_) && !Drain()) return fd_.Reset(), 0;
    uint64_t out = 0;
    // A few parts, so that the others get their turn.
    for (int i = 0; i < 4 && open(); ++i) {
      if (sent_ == waiting_.size()) Refill();
      if (waiting_.empty()) break;
      const ssize_t n =
          send(fd_.get(), waiting_.data() + sent_, waiting_.size() - sent_, MSG_NOSIGNAL);
      if (n < 0 && errno == EAGAIN) break;
      if (n <= 0) return fd_.Reset(), out;
      sent_ += static_cast<size_t>(n);
      out += static_cast<uint64_t>(n);
    }
    return out;
  }

 private:
  void Refill() {
    sent_ = 0;
    waiting_ = std::exchange(greeted_, true) ? "" : Greeting();
    if (!flood_.acknowledges || heard_) {
      const std::string next = silent_ ? "" : flood_.next(sender_);
      ++sender_.parts;
      silent_ = next.empty();
      waiting_ += next;
    }
  }
  // False once the server has closed.
  bool Drain() {
    char buffer[16 << 10];
    for (;;) {
      const ssize_t n = recv(fd_.get(), buffer, sizeof buffer, 0);
      if (n <= 0) return n < 0 && errno == EAGAIN;
      heard_ = true;
    }
  }

  const Flood& flood_;
  UniqueFd fd_;
  Sender sender_;
  std::string waiting_;
  size_t sent_ = 0;
  bool greeted_ = false, silent_ = false, heard_ = false;
};

}  // namespace

FloodResult Send(const Flood& flood, const std::string& host_port, const std::string& from,
                 int connections, const std::function<bool()>& done) {
  FloodResult out;
  std::vector<std::unique_ptr<Connection>> all(static_cast<size_t>(connections));
  while (!done()) {
    std::vector<pollfd> wait;
    for (auto& one : all) {
      if (one != nullptr && !one->open()) ++out.refused, one = nullptr;
      if (one == nullptr) {
        one = std::make_unique<Connection>(flood, ConnectFrom(from, host_port));
        ++out.connections;
      }
      out.bytes += one->Go();
      if (one->open()) {
        wait.push_back({one->fd(), static_cast<short>(POLLIN | (one->sends() ? POLLOUT : 0)), 0});
      }
    }
    poll(wait.data(), wait.size(), kWaitMs);
  }
  return out;
}

}  // namespace uopd::test::http2
