// SPDX-License-Identifier: MIT
#include "server/http/connections.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "server/http/http_server.h"

namespace uopd::http {
namespace {

constexpr std::chrono::milliseconds kLingerLimit{1000};
constexpr std::string_view kHeadEnd = "\r\n\r\n";

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

void Connections::Add(UniqueFd fd) {
  // End the oldest connection: it has had the most time to finish.
  if (connections_.size() >= kMaxConnections) End(connections_.begin());
  const int number = fd.get();
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.fd = number;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, number, &event) != 0) return;
  connections_.push_back({std::move(fd), Clock::now() + head_limit_, {}, {}});
  by_fd_[number] = std::prev(connections_.end());
}

bool Connections::OnEvent(int fd) {
  const auto it = by_fd_.find(fd);
  if (it == by_fd_.end()) return false;
  switch (it->second->state) {
    case Connection::kReading:
      Read(it->second);
      break;
    case Connection::kAnswering:
      Write(it->second);
      break;
    case Connection::kLingering:
      Linger(it->second);
      break;
  }
  return true;
}

void Connections::Read(Position at) {
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t n = recv(at->fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n < 0 && WouldBlock()) return;
    if (n <= 0) return End(at);
    at->in.append(bytes.data(), static_cast<size_t>(n));
    if (at->in.find(kHeadEnd) != std::string::npos || at->in.size() > kMaxHead) break;
  }
  at->out = answer_(std::string_view(at->in).substr(0, at->in.find(kHeadEnd)));
  at->in = {};
  held_ += at->out.size();
  BoundAnswers(at);
  at->state = Connection::kAnswering;
  at->deadline = Clock::now() + kAnswerLimit;
  Write(at);
}

void Connections::Write(Position at) {
  while (at->written < at->out.size()) {
    const ssize_t n = send(at->fd.get(), at->out.data() + at->written, at->out.size() - at->written,
                           MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && WouldBlock()) return;
    if (n < 0) return End(at);
    at->written += static_cast<size_t>(n);
  }
  shutdown(at->fd.get(), SHUT_WR);
  held_ -= at->out.size();
  at->out = {};
  at->state = Connection::kLingering;
  at->deadline = Clock::now() + kLingerLimit;
  Linger(at);
}

void Connections::Linger(Position at) {
  std::array<char, 4096> bytes;
  for (int i = 0; i < 16; ++i) {  // endless data ends by the time limit
    const ssize_t n = recv(at->fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n < 0 && WouldBlock()) return;
    if (n <= 0) return End(at);
  }
  End(at);
}

void Connections::BoundAnswers(Position newest) {
  for (auto at = connections_.begin(); held_ > kMaxHeldBytes && at != connections_.end();) {
    const auto here = at++;
    if (here != newest && !here->out.empty()) End(here);
  }
}

void Connections::End(Position at) {
  held_ -= at->out.size();
  by_fd_.erase(at->fd.get());
  connections_.erase(at);  // closing also ends the watch
}

int Connections::EndOverdue() {
  const Clock::time_point now = Clock::now();
  auto next = Clock::time_point::max();
  for (auto at = connections_.begin(); at != connections_.end();) {
    const auto here = at++;
    if (here->deadline <= now) {
      End(here);
    } else {
      next = std::min(next, here->deadline);
    }
  }
  if (next == Clock::time_point::max()) return -1;
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(next - now).count());
}

}  // namespace uopd::http
