// SPDX-License-Identifier: MIT
// The connections of an HTTP server. The server never blocks on any of them.
//
//   reading --head is whole--> answering --all is written--> lingering --client closed--> gone
//   any of them --its time is over, or pushed out by a newer one--> gone
//
// Used by one thread. After an answer the server ends its side of the connection. It then waits a
// little for the client to close. Reason: if unread bytes from the client are left at the close,
// the connection is reset before the client has read the answer.
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

  // Watches descriptors with `epoll`, which outlives this object.
  Connections(int epoll, std::chrono::milliseconds head_limit, AnswerFn answer)
      : epoll_(epoll), head_limit_(head_limit), answer_(std::move(answer)) {}

  void Add(UniqueFd fd);
  // Handles an event of a descriptor. True: the descriptor belongs to a connection.
  bool OnEvent(int fd);
  // Ends the connections whose time is over. Returns the milliseconds until the next one is due;
  // -1: none.
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

  // While the answers that wait for their clients are larger than kMaxHeldBytes, ends the oldest
  // connections that have one. `newest` stays: its answer was made just now, whenever it connected.
  void BoundAnswers(Position newest);

  const int epoll_;
  const std::chrono::milliseconds head_limit_;
  const AnswerFn answer_;
  std::list<Connection> connections_;  // oldest first
  size_t held_ = 0;                    // bytes of all `out`
  absl::flat_hash_map<int, Position> by_fd_;
};

}  // namespace uopd::http
