// SPDX-License-Identifier: MIT
// Scenario: a subcommand of uopd_chaos. A new one is a file in tests/chaos/scenarios with an Add
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
  double seconds = 0;   // 0: as the scenario has it
  int64_t times = 0;    // kills, requests; 0: as the scenario has it
  uint64_t seed = 1;
  std::set<std::string> without, only;  // actors
  bool keep = false;                    // the folder with the data and the log
};

struct Scenario {
  std::string name, doc;
  std::function<absl::Status(const Settings&, Report&)> run;
};
std::vector<Scenario>& Scenarios();

struct Add {
  explicit Add(Scenario scenario) { Scenarios().push_back(std::move(scenario)); }
};

// Limits that a run can reach, and sessions that end soon.
inline constexpr double kDrain = 5;
inline constexpr double kMemoryMiB = 512 + 256;
std::vector<std::string> DaemonFlags();

// What the daemon has once it has served one request.
Footprint IdleFootprint(World& world);

// Starts the actors of these names that the settings let act. INVALID_ARGUMENT: there is no such.
absl::Status StartActors(const std::vector<std::string>& names, const Settings& settings,
                         World& world, std::vector<std::jthread>& threads);
std::vector<std::string> WellBehaved();

// Until `done`, `seconds` or the death of the daemon that cannot be mended; then ends the world.
absl::Status Watch(World& world, double seconds, const std::function<bool()>& done = {});

}  // namespace uopd::chaos
