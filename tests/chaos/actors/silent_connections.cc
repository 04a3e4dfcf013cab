// SPDX-License-Identifier: MIT
// 500 connections that send nothing, half of them to each port. A closed connection is opened
// again.
#include <vector>

#include "tests/chaos/actor.h"
#include "tests/chaos/sockets.h"

namespace uopd::chaos::silent_connections {
namespace {

constexpr size_t kConnections = 250;  // to each port

void Act(World& world, int) {
  std::vector<Socket> held;
  int64_t generation = -1;
  while (!world.Over()) {
    const auto place = world.Where();
    if (!place) return;
    if (place->generation != generation) held.clear(), generation = place->generation;
    std::erase_if(held, [](Socket& socket) { return socket.Closed(); });
    for (size_t i = held.size(); i < 2 * kConnections && !world.Over(); ++i) {
      Socket socket = Socket::Connect(i % 2 == 0 ? place->grpc : place->http, SourceAddress(0));
      if (!socket.ok()) break;
      world.report().Count("silent_connections.opened");
      held.push_back(std::move(socket));
    }
    world.report().Sample("silent_connections.held", static_cast<double>(held.size()));
    world.Pause(0.5);
  }
}

const Register kRegister({.name = "silent_connections",
                          .doc = "500 connections to the gRPC and HTTP ports that say nothing",
                          .copies = 1,
                          .act = Act});

}  // namespace
}  // namespace uopd::chaos::silent_connections
