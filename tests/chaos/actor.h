// SPDX-License-Identifier: MIT
// Actor: one kind of disturbance or load for a daemon. To add one, add a file in tests/chaos/actors
// with a Register object, and a line in docs/testing.md.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/chaos/world.h"

namespace uopd::chaos {

struct Actor {
  std::string name, doc;
  int copies = 1;  // number of threads
  // True: the actor must be served whatever the others do. The other actors may be refused.
  bool well_behaved = false;
  // Acts until the world is over. It does not clean up what it opened: the daemon must clean up
  // after clients that vanish.
  std::function<void(World&, int copy)> act;
};

std::vector<Actor>& Actors();

struct Register {
  explicit Register(Actor actor) { Actors().push_back(std::move(actor)); }
};

// Starts the threads of an actor. They end with the world.
std::vector<std::jthread> StartActor(const Actor& actor, World& world);
// By name; null if there is none.
const Actor* FindActor(const std::string& name);

}  // namespace uopd::chaos
