// SPDX-License-Identifier: MIT
// The connections of an HTTP server, none of which is waited for.
//
//   reading --head is whole--> answering --all is written--> lingering --client closed--> gone
//   any of them --its time is over, or pushed out by a newer one--> gone
//
// Used by one thread. An answer is followed by the end of what the server sends; the client's own
// end is waited for a little, so that bytes which it sent too much do not reset the connection
// before it has read the answer.
#pragma once
#include <chrono>
#include <functional>
#include <list>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "core/base/unique_fd.h"

namespace uopd::http {

class Connections {
 public:
  using Clock = std::chrono::steady_clock;
  using AnswerFn = std::function<std::string(std::string_view head)>;

  // Watches descriptors with `epoll`, which outlives it.
  Connections(int epoll, std::chrono::milliseconds head_limit, AnswerFn answer)
      : epoll_(epoll), head_limit_(head_limit), answer_(std::move(answer)) {}

  void Add(UniqueFd fd);
  // Something happened at a descriptor: true if it is one of a connection.
  bool OnEvent(int fd);
  // Ends what took too long; milliseconds until the next end is due, -1: none is.
  int EndOverdue();
  size_t size() const { return connections_.size(); }

 private:
  struct Connection {
    UniqueFd fd;
    Clock::time_point deadline;
    std::string in, out;
    size_t written = 0;
    enum { kReading, kAnswering, kLingering } state = kReading;
  };
  using Position = std::list<Connection>::iterator;

  void Read(Position at);
  void Write(Position at);
  void Linger(Position at);
  void End(Position at);

  const int epoll_;
  const std::chrono::milliseconds head_limit_;
  const AnswerFn answer_;
  std::list<Connection> connections_;  // oldest first
  absl::flat_hash_map<int, Position> by_fd_;
};

}  // namespace uopd::http
