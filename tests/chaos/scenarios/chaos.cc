// SPDX-License-Identifier: MIT
// All actors at once: `uopd_chaos`, ten minutes.
#include "tests/chaos/monitor.h"
#include "tests/chaos/scenario.h"

namespace uopd::chaos::chaos {
namespace {

constexpr double kAlone = 0.1;  // part of the time, before the attackers begin

absl::Status Run(const Settings& settings, Report& report) {
  World world({settings.program, settings.seed, DaemonFlags(), settings.keep}, report);
  UOPD_TRY(world.Start());
  AftermathLimits aftermath{.idle = IdleFootprint(world), .drain_s = kDrain};
  std::vector<std::string> attackers;
  for (const Actor& actor : Actors()) {
    if (!actor.well_behaved) attackers.push_back(actor.name);
  }
  const double seconds = settings.seconds > 0 ? settings.seconds : 600;
  size_t alone = 0;
  {
    std::vector<std::jthread> threads;
    const Monitor monitor(world, {.memory_mib = kMemoryMiB});
    absl::Status status = StartActors(WellBehaved(), settings, world, threads);
    world.Pause(seconds * kAlone);
    alone = report.SamplesOf("tiny_ms").size();
    if (status.ok()) status = StartActors(attackers, settings, world, threads);
    if (status.ok()) status = Watch(world, seconds * (1 - kAlone));
    world.End();
    UOPD_TRY(status);
  }
  CheckAftermath(world, aftermath);
  auto before = report.SamplesOf("tiny_ms");
  const std::vector<double> during(before.begin() + static_cast<int64_t>(alone), before.end());
  before.resize(alone);
  report.Figure("tiny_alone_p50_ms", Percentile(before, 0.5));
  report.Figure("tiny_alone_p99_ms", Percentile(before, 0.99));
  report.Figure("tiny_attacked_p50_ms", Percentile(during, 0.5));
  report.Figure("tiny_attacked_p99_ms", Percentile(during, 0.99));
  return absl::OkStatus();
}

const Add kAdd({"chaos", "all actors at once, for ten minutes", Run});

}  // namespace
}  // namespace uopd::chaos::chaos
