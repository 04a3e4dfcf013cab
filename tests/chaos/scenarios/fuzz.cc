// SPDX-License-Identifier: MIT
// 200,000 requests of every call, made by mutation: `uopd_chaos fuzz --uopd build/asan/bin/uopd`.
#include "tests/chaos/monitor.h"
#include "tests/chaos/scenario.h"

namespace uopd::chaos::fuzz {
namespace {

absl::Status Run(const Settings& settings, Report& report) {
  World world({settings.program, settings.seed, DaemonFlags(), settings.keep}, report);
  UOPD_TRY(world.Start());
  const AftermathLimits aftermath{.idle = IdleFootprint(world), .drain_s = kDrain};
  const int64_t times = settings.times > 0 ? settings.times : 200'000;
  const auto counted = [&] { return report.CountOf("mutants") + report.CountOf("odd_calls"); };
  {
    std::vector<std::jthread> threads;
    const Monitor monitor(world, {});
    absl::Status status = StartActors({"mutants", "odd_calls"}, settings, world, threads);
    const double seconds = settings.seconds > 0 ? settings.seconds : 8 * 3600;
    if (status.ok()) status = Watch(world, seconds, [&] { return counted() >= times; });
    world.End();
    UOPD_TRY(status);
  }
  report.Figure("requests", static_cast<double>(counted()));
  CheckAftermath(world, aftermath);
  return absl::OkStatus();
}

const Add kAdd({"fuzz", "200,000 requests of every call, made by mutation", Run});

}  // namespace
}  // namespace uopd::chaos::fuzz
