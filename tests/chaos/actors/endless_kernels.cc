// SPDX-License-Identifier: MIT
// Kernels that run until they are stopped: sums over 2^36 to 2^45 sines. Their clients leave after
// a second.
#include "core/base/text.h"
#include "tests/chaos/actor.h"
#include "tests/chaos/graphs.h"
#include "tests/chaos/guest.h"

namespace uopd::chaos::endless_kernels {
namespace {

void Act(World& world, int copy) {
  auto random = world.Random("endless_kernels", copy);
  Guest guest(world, "endless_kernels");
  while (guest.Await()) {
    // Few programs, so that most requests run and do not compile.
    const std::string graph = EndlessGraph(36 + static_cast<int>(random() % 10), 1.0 + copy);
    switch (random() % 3) {
      case 0:
        guest.Run(graph, 1, 1);
        break;
      case 1:
        guest.Execute(graph, 1, 1);
        break;
      default:  // the client leaves without cancelling
        guest.Execute(graph, 1, 0.3);
        guest.Drop();
    }
    world.Pause(0.2);
  }
}

const Register kRegister({.name = "endless_kernels",
                          .doc = "sums over 2^36 to 2^45 elements, given up after a second",
                          .copies = 4,
                          .act = Act});

}  // namespace
}  // namespace uopd::chaos::endless_kernels
