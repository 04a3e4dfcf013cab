// SPDX-License-Identifier: MIT
#include "tests/chaos/actor.h"

#include <algorithm>

namespace uopd::chaos {

std::vector<Actor>& Actors() {
  static std::vector<Actor> actors;
  return actors;
}

std::vector<std::jthread> StartActor(const Actor& actor, World& world) {
  std::vector<std::jthread> out;
  for (int copy = 0; copy < actor.copies; ++copy) {
    out.emplace_back([&world, &actor, copy] { actor.act(world, copy); });
  }
  return out;
}

const Actor* FindActor(const std::string& name) {
  const auto found = std::find_if(Actors().begin(), Actors().end(),
                                  [&](const Actor& actor) { return actor.name == name; });
  return found == Actors().end() ? nullptr : &*found;
}

}  // namespace uopd::chaos
