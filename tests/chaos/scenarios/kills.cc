// SPDX-License-Identifier: MIT
// 1,000 kills and stops of child processes under load, and 200 kills of the daemon itself. Checks
// what clients notice and what stays behind.
#include "tests/chaos/monitor.h"
#include "tests/chaos/scenario.h"

namespace uopd::chaos::kills {
namespace {

// Runs well-behaved clients and `others` until `report` has the wanted number of `counted`.
absl::Status RunUntil(const Settings& settings, Report& report, std::vector<std::string> others,
                      int64_t times, const std::function<int64_t()>& counted) {
  World world({settings.program, settings.seed, DaemonFlags(), settings.keep}, report);
  UOPD_TRY(world.Start());
  const AftermathLimits aftermath{.idle = IdleFootprint(world), .drain_s = kDrain};
  std::vector<std::string> names = WellBehaved();
  names.insert(names.end(), others.begin(), others.end());
  {
    std::vector<std::jthread> threads;
    const Monitor monitor(world, {.memory_mib = kMemoryMiB});
    absl::Status status = StartActors(names, settings, world, threads);
    const double seconds = settings.seconds > 0 ? settings.seconds : 3600;
    if (status.ok()) status = Watch(world, seconds, [&] { return counted() >= times; });
    world.End();
    UOPD_TRY(status);
  }
  report.Figure("times", static_cast<double>(counted()));
  CheckAftermath(world, aftermath);
  return absl::OkStatus();
}

absl::Status Kills(const Settings& settings, Report& report) {
  const auto counted = [&report] {
    int64_t out = 0;
    for (const char* name : {"uopd-compile", "uopd-forks", "uopd-tune", "uopd-measure"}) {
      out += report.CountOf(std::string("killed.") + name);
      out += report.CountOf(std::string("stopped.") + name);
    }
    return out;
  };
  return RunUntil(settings, report, {"worker_killer", "fork_killer"},
                  settings.times > 0 ? settings.times : 1000, counted);
}

absl::Status Kill9(const Settings& settings, Report& report) {
  return RunUntil(settings, report, {"daemon_killer"}, settings.times > 0 ? settings.times : 200,
                  [&report] { return report.CountOf("daemon_kills"); });
}

const Add kKills({"kills", "1,000 kills and stops of child processes under load", Kills});
const Add kKill9({"kill9", "200 kill -9 of the daemon under load", Kill9});

}  // namespace
}  // namespace uopd::chaos::kills
