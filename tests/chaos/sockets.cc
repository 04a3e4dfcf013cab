// SPDX-License-Identifier: MIT
#include "tests/chaos/sockets.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "core/base/text.h"
#include "tests/support/ipv4.h"

namespace uopd::chaos {
namespace {

constexpr int kConnectLimitMs = 2000;

bool SendAll(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
    if (n <= 0) return false;
    data += n, size -= static_cast<size_t>(n);
  }
  return true;
}

// Passes data until either side has ended, then ends the other side.
void Copy(int from, int to) {
  char buffer[16384];
  for (ssize_t n; (n = recv(from, buffer, sizeof buffer, 0)) > 0;) {
    if (!SendAll(to, buffer, static_cast<size_t>(n))) break;
  }
  shutdown(to, SHUT_RDWR);
  shutdown(from, SHUT_RDWR);
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

Socket Socket::Connect(const std::string& host_port, const std::string& from) {
  const size_t colon = host_port.rfind(':');
  if (colon == std::string::npos) return {};
  Socket out(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!out.ok()) return {};
  if (!from.empty()) {
    const sockaddr_in source = test::Ipv4(from, 0);
    if (bind(out.fd_, reinterpret_cast<const sockaddr*>(&source), sizeof source) != 0) return {};
  }
  const sockaddr_in target =
      test::Ipv4(host_port.substr(0, colon), std::atoi(host_port.c_str() + colon + 1));
  if (connect(out.fd_, reinterpret_cast<const sockaddr*>(&target), sizeof target) != 0) {
    if (errno != EINPROGRESS) return {};
    pollfd wait{out.fd_, POLLOUT, 0};
    int error = 0;
    socklen_t size = sizeof error;
    if (poll(&wait, 1, kConnectLimitMs) != 1 ||
        getsockopt(out.fd_, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
      return {};
    }
  }
  fcntl(out.fd_, F_SETFL, fcntl(out.fd_, F_GETFL) & ~O_NONBLOCK);
  return out;
}

bool Socket::Send(const std::string& bytes) { return SendAll(fd_, bytes.data(), bytes.size()); }

bool Socket::Closed() {
  char buffer[4096];
  for (;;) {
    const ssize_t n = recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n > 0) continue;
    return n == 0 || (errno != EAGAIN && errno != EINTR);
  }
}

Relay::Relay(std::string target, std::string from)
    : target_(std::move(target)),
      from_(std::move(from)),
      listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = test::Ipv4("127.0.0.1", 0);
  socklen_t size = sizeof address;
  if (bind(listener_.fd(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener_.fd(), SOMAXCONN) != 0 ||
      getsockname(listener_.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return;
  }
  address_ = Cat("127.0.0.1:", static_cast<int>(ntohs(address.sin_port)));
  acceptor_ = std::thread([this] { Accept(); });
}

void Relay::Accept() {
  while (!over_) {
    Socket in(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (over_ || !in.ok()) continue;
    Socket out = Socket::Connect(target_, from_);
    if (!out.ok()) continue;
    Pair& pair = pairs_.emplace_back();
    pair.in = std::move(in), pair.out = std::move(out);
    pair.forth = std::thread(Copy, pair.in.fd(), pair.out.fd());
    pair.back = std::thread(Copy, pair.out.fd(), pair.in.fd());
  }
}

Relay::~Relay() {
  over_ = true;
  shutdown(listener_.fd(), SHUT_RDWR);  // ends accept
  if (acceptor_.joinable()) acceptor_.join();
  for (Pair& pair : pairs_) {
    shutdown(pair.in.fd(), SHUT_RDWR);
    shutdown(pair.out.fd(), SHUT_RDWR);
    pair.forth.join();
    pair.back.join();
  }
}

std::string SourceAddress(int number) {
  return Cat("127.0.", 1 + number / 250, ".", 1 + number % 250);
}

}  // namespace uopd::chaos
