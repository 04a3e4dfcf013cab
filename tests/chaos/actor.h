// SPDX-License-Identifier: MIT
// Actor: one kind of thing that happens to a daemon. A new one is a file in tests/chaos/actors with
// a Register object, and a line in docs/testing.md.
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
  int copies = 1;  // threads
  // One that must be served whatever the others do; the others may be refused.
  bool well_behaved = false;
  // Acts until the world is over. What it opened it leaves as it is: cleaning up after clients that
  // vanish is the daemon's.
  std::function<void(World&, int copy)> act;
};

std::vector<Actor>& Actors();

struct Register {
  explicit Register(Actor actor) { Actors().push_back(std::move(actor)); }
};

// Starts an actor's threads; they end with the world.
std::vector<std::jthread> StartActor(const Actor& actor, World& world);
// By name; null if there is none.
const Actor* FindActor(const std::string& name);

}  // namespace uopd::chaos
