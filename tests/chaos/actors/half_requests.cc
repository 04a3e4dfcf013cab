// SPDX-License-Identifier: MIT
// HTTP requests that never end: a header a second, on twice as many connections as there are
// threads to serve them.
#include <vector>

#include "tests/chaos/actor.h"
#include "tests/chaos/sockets.h"

namespace uopd::chaos::half_requests {
namespace {

constexpr size_t kConnections = 8;

void Act(World& world, int) {
  std::vector<Socket> held;
  int64_t generation = -1;
  while (!world.Over()) {
    const auto place = world.Where();
    if (!place) return;
    if (place->generation != generation) held.clear(), generation = place->generation;
    std::erase_if(held, [](Socket& s) { return s.Closed() || !s.Send("X-More: 1\r\n"); });
    while (held.size() < kConnections && !world.Over()) {
      Socket socket = Socket::Connect(place->http, SourceAddress(1));
      if (!socket.ok() || !socket.Send("GET /metrics HTTP/1.1\r\nHost: x\r\n")) break;
      world.report().Count("half_requests.opened");
      held.push_back(std::move(socket));
    }
    world.Pause(1);
  }
}

const Register kRegister({.name = "half_requests",
                          .doc = "8 HTTP requests that send a header a second",
                          .copies = 1,
                          .act = Act});

}  // namespace
}  // namespace uopd::chaos::half_requests
