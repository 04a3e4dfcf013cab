// SPDX-License-Identifier: MIT
// Valid graphs for which the verifier, the scheduler or the compiler needs long, requested with a
// short deadline: deep chains, many kernels, huge sizes. Also graphs with a BUFFER where none is
// allowed.
#include "tests/chaos/actor.h"
#include "tests/chaos/graphs.h"
#include "tests/chaos/guest.h"

namespace uopd::chaos::hard_graphs {
namespace {

void Act(World& world, int copy) {
  auto random = world.Random("hard_graphs", copy);
  Guest guest(world, "hard_graphs");
  while (guest.Await()) {
    const std::string graph = HardGraph(random);
    const double deadline = 0.2 + static_cast<double>(random() % 1000) / 1e3;
    random() % 2 == 0 ? guest.Prepare(graph, deadline) : guest.Run(graph, 2, deadline);
    world.Pause(0.1);
  }
}

const Register kRegister({.name = "hard_graphs",
                          .doc = "deep chains, many kernels, huge sizes; deadlines of a second",
                          .copies = 1,
                          .act = Act});

}  // namespace
}  // namespace uopd::chaos::hard_graphs
