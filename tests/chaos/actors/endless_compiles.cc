// SPDX-License-Identifier: MIT
// Graphs whose compiler is busy for minutes, by clients that leave after a second and ask again.
#include "tests/chaos/actor.h"
#include "tests/chaos/graphs.h"
#include "tests/chaos/guest.h"

namespace uopd::chaos::endless_compiles {
namespace {

void Act(World& world, int copy) {
  auto random = world.Random("endless_compiles", copy);
  Guest guest(world, "endless_compiles");
  while (guest.Await()) {
    // A new graph each time, so that no cache has any part of it.
    const auto offset = static_cast<double>(random() % (1 << 30));
    guest.Prepare(random() % 2 == 0 ? ManyKernelsGraph(400, offset) : SineChainGraph(400, offset),
                  1);
    world.Pause(0.1);
  }
}

const Register kRegister({.name = "endless_compiles",
                          .doc = "graphs that compile for minutes, given up after a second",
                          .copies = 4,
                          .act = Act});

}  // namespace
}  // namespace uopd::chaos::endless_compiles
