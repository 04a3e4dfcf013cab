// SPDX-License-Identifier: MIT
// Resolver: the addresses of a host's name, without a wait for the C library.
//
// getaddrinfo has no deadline: a name server that does not answer holds it for many seconds. So a
// thread of its own asks, one at a time for each name, and whoever wants the answer waits for it
// until its own deadline only. An answer is kept. Once it is old, the next call still gets it at
// once, and a thread asks again in the background. If that fails, the last good answer stays.
//
// Thread-safe. A thread that asks may outlive the resolver, and then touches nothing of it.
#pragma once
#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cache/base/wait/wait.h"

namespace uopd::cache {

struct SocketAddress {
  sockaddr_storage bytes = {};  // of IPv4 or IPv6
  socklen_t size = 0;
  void SetPort(uint16_t port);
};
using SocketAddresses = std::vector<SocketAddress>;  // best first; never empty in an answer

class Resolver {
 public:
  struct Options {
    // May block for ever, and may be called on several threads. Null: getaddrinfo.
    std::function<absl::StatusOr<SocketAddresses>(const std::string& host)> look_up;
    std::chrono::milliseconds fresh{5'000};  // an older answer is asked for again
  };

  explicit Resolver(Options options);
  Resolver() : Resolver(Options()) {}
  ~Resolver();

  // With port 0. An address in digits is its own answer. UNAVAILABLE: the name is not known, and
  // never was; DEADLINE_EXCEEDED: nobody has answered yet. The search goes on, so a later call may
  // find its answer.
  absl::StatusOr<SocketAddresses> Resolve(const std::string& host, Deadline deadline);

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace uopd::cache
