// SPDX-License-Identifier: MIT
// What fork() needs of gRPC: that none of its threads is left, and that parent and child do not
// share what it polls.
//
// gRPC keeps something open between its last object and its next one: an epoll set and the eventfd
// that wakes it. gRPC 1.51 makes both once in a process and never closes them. A child of fork()
// inherits both, and so each process would take events of the other one: calls of both would wait
// for ever for an answer that has come. (gRPC replaces both itself only with
// GRPC_ENABLE_FORK_SUPPORT, which must be set before the process starts.)
#pragma once
#include <vector>

#include "absl/status/status.h"

namespace uopd::client {

// Not thread-safe.
class PollSets {
 public:
  // Before fork(), when this library has no object of gRPC: waits until gRPC has shut down, which a
  // thread of its own may do, and finds what a child must not share. Finds nothing without /proc.
  void Find();
  // In the child: replaces both by new ones under the same numbers. An error: the child cannot use
  // gRPC.
  absl::Status Replace();

 private:
  struct Wakeup {
    int set, event;  // file descriptors
    unsigned events;
    unsigned long long data;
  };
  bool shut_down_ = false;
  std::vector<Wakeup> wakeups_;
};

}  // namespace uopd::client
