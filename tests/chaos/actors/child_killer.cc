// SPDX-License-Identifier: MIT
// Sends SIGKILL and SIGSTOP to any process below the daemon: to workers that compile and to the
// fork server. A stopped process may stay stopped, or continue after a while.
#include <signal.h>

#include <vector>

#include "core/base/text.h"
#include "tests/chaos/actor.h"
#include "tests/support/processes.h"

namespace uopd::chaos::child_killer {
namespace {

struct Stopped {
  pid_t pid;
  double until;
};

void Act(World& world, int copy, bool forks) {
  auto random = world.Random("child_killer", copy);
  std::vector<Stopped> stopped;
  while (world.Pause(0.05 + static_cast<double>(random() % 300) / 1e3)) {
    std::erase_if(
        stopped, [](const Stopped& s) { return Now() >= s.until && (kill(s.pid, SIGCONT), true); });
    const auto place = world.Where();
    if (!place) break;
    auto children = test::Descendants(place->pid);
    std::erase_if(children, [&](const test::Process& p) {
      return p.state == 'Z' || p.state == 'T' || (p.name == "uopd-forks") != forks;
    });
    if (children.empty()) continue;
    const test::Process& child = children[random() % children.size()];
    if (random() % 3 != 0) {
      kill(child.pid, SIGKILL);
      world.report().Count(Cat("killed.", child.name));
    } else {
      kill(child.pid, SIGSTOP);
      world.report().Count(Cat("stopped.", child.name));
      if (random() % 2 == 0) {
        stopped.push_back({child.pid, Now() + static_cast<double>(random() % 3000) / 1e3});
      }
    }
    // The fork server is started again. The run checks that it is, and what happens meanwhile.
    if (forks) world.Pause(2);
  }
}

const Register kWorkers({.name = "worker_killer",
                         .doc = "SIGKILL and SIGSTOP to worker processes, four a second",
                         .copies = 1,
                         .act = [](World& world, int copy) { Act(world, copy, false); }});
const Register kForks({.name = "fork_killer",
                       .doc = "SIGKILL and SIGSTOP to the fork server, every two seconds",
                       .copies = 1,
                       .act = [](World& world, int copy) { Act(world, copy + 1, true); }});

}  // namespace
}  // namespace uopd::chaos::child_killer
