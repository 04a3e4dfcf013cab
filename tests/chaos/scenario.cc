// SPDX-License-Identifier: MIT
#include "tests/chaos/scenario.h"

#include <chrono>

#include "core/base/text.h"
#include "tests/chaos/caller.h"
#include "tests/e2e/graphs.h"

namespace uopd::chaos {

std::vector<Scenario>& Scenarios() {
  static std::vector<Scenario> scenarios;
  return scenarios;
}

std::vector<std::string> DaemonFlags() {
  return {"--server-drain-timeout-ms=5s", "--session-ttl-ms=10s",
          "--session-grace-ms=2s",        "--limits-total-bytes=512MiB",
          "--limits-session-bytes=64MiB", "--limits-peer-bytes=64MiB"};
}

test::Footprint IdleFootprint(World& world) {
  {
    Caller caller(world, "first");
    v1::PrepareResponse response;
    if (caller.Ready()) caller.Prepare(e2e::AddGraph(5), &response);
  }
  return test::FootprintOf(world.LastPlace().pid);
}

std::vector<std::string> WellBehaved() {
  std::vector<std::string> out;
  for (const Actor& actor : Actors()) {
    if (actor.well_behaved) out.push_back(actor.name);
  }
  return out;
}

absl::Status StartActors(const std::vector<std::string>& names, const Settings& settings,
                         World& world, std::vector<std::jthread>& threads) {
  for (const std::string& name : names) {
    const Actor* actor = FindActor(name);
    if (actor == nullptr) return absl::InvalidArgumentError(Cat("no actor is called ", name));
    if (settings.without.contains(name)) continue;
    if (!settings.only.empty() && !settings.only.contains(name)) continue;
    world.report().Count(Cat("acts.", name), actor->copies);
    for (std::jthread& thread : StartActor(*actor, world)) threads.push_back(std::move(thread));
  }
  return absl::OkStatus();
}

absl::Status Watch(World& world, double seconds, const std::function<bool()>& done) {
  const double end = Now() + seconds;
  absl::Status status;
  while (status.ok() && Now() < end && !(done && done())) {
    status = world.GrantWishes();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  world.End();
  return status;
}

}  // namespace uopd::chaos
