// SPDX-License-Identifier: MIT
// Scenario: a subcommand of uopd_chaos. To add one, add a file in tests/chaos/scenarios with an Add
// object.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/chaos/actor.h"
#include "tests/chaos/aftermath.h"
#include "tests/chaos/report.h"
#include "tests/chaos/world.h"

namespace uopd::chaos {

struct Settings {
  std::string program;  // path of uopd
  double seconds = 0;   // 0: the scenario decides
  int64_t times = 0;    // number of kills or requests; 0: the scenario decides
  uint64_t seed = 1;
  std::set<std::string> without, only;  // names of actors
  bool keep = false;                    // keep the folder with the data and the log
};

struct Scenario {
  std::string name, doc;
  // UNIMPLEMENTED: this machine cannot run it.
  std::function<absl::Status(const Settings&, Report&)> run;
};
std::vector<Scenario>& Scenarios();

struct Add {
  explicit Add(Scenario scenario) { Scenarios().push_back(std::move(scenario)); }
};

// Settings of the daemon: limits that a run can reach, and sessions that end soon.
inline constexpr double kDrain = 5;
inline constexpr double kMemoryMiB = 512 + 256;
std::vector<std::string> DaemonFlags();

// The resources of the daemon after it has served one request.
test::Footprint IdleFootprint(World& world);

// Starts those actors in `names` that the settings allow. INVALID_ARGUMENT: there is no actor of a
// name.
absl::Status StartActors(const std::vector<std::string>& names, const Settings& settings,
                         World& world, std::vector<std::jthread>& threads);
std::vector<std::string> WellBehaved();

// Waits for `done`, for `seconds`, or for a death of the daemon that cannot be repaired. Then ends
// the world.
absl::Status Watch(World& world, double seconds, const std::function<bool()>& done = {});

}  // namespace uopd::chaos
