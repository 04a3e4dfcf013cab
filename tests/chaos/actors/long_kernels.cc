// SPDX-License-Identifier: MIT
// Kernels that the daemon admits and that run long: sums over 2^35 sines. Their clients wait.
#include "core/base/text.h"
#include "tests/chaos/actor.h"
#include "tests/chaos/graphs.h"
#include "tests/chaos/guest.h"

namespace uopd::chaos::long_kernels {
namespace {

constexpr double kWait = 25;  // seconds

void Act(World& world, int copy) {
  Guest guest(world, "long_kernels");
  while (guest.Await()) {
    const double begin = Now();
    guest.Execute(EndlessGraph(35, 1.0 + copy), 1, kWait);
    world.report().Sample("long_kernels.seconds", Now() - begin);
    world.Pause(0.2);
  }
}

const Register kRegister({.name = "long_kernels",
                          .doc = "sums over 2^35 elements, waited for",
                          .copies = 4,
                          .act = Act});

}  // namespace
}  // namespace uopd::chaos::long_kernels
