// SPDX-License-Identifier: MIT
// The time of a tiny execute, first alone and then beside an attack. The siege: four kernels that
// run long, four graphs whose compiler never ends, six unread pipelines, 500 silent connections and
// 100 open uploads. The floods: HTTP/2 frames of every kind.
#include <algorithm>

#include "core/base/text.h"
#include "tests/chaos/monitor.h"
#include "tests/chaos/scenario.h"

namespace uopd::chaos::siege {
namespace {

struct Figures {
  double p50 = 0, p99 = 0, metrics_p99 = 0;
};

absl::Status Part(const Settings& settings, Report& report, const std::vector<std::string>& names,
                  double warm_s, Figures* out) {
  World world({settings.program, settings.seed, DaemonFlags(), settings.keep}, report);
  UOPD_TRY(world.Start());
  const double seconds = warm_s + (settings.seconds > 0 ? settings.seconds : 30);
  size_t skip = 0;
  {
    std::vector<std::jthread> threads;
    const Monitor monitor(world, {.memory_mib = kMemoryMiB});
    absl::Status status = StartActors({"tiny"}, settings, world, threads);
    if (status.ok()) status = StartActors(names, settings, world, threads);
    const double begin = Now();
    if (status.ok()) {
      status = Watch(world, seconds, [&] {
        // The attackers need a while to begin.
        if (Now() - begin < warm_s) skip = report.SamplesOf("tiny_ms").size();
        return false;
      });
    }
    // The daemon ends during the attack: SIGTERM is sent before the actors are told.
    report.Figure(names.empty() ? "stop_alone_s" : "stop_s", CheckStop(world, kDrain));
    UOPD_TRY(status);
  }
  auto samples = report.SamplesOf("tiny_ms");
  samples.erase(samples.begin(), samples.begin() + static_cast<int64_t>(skip));
  if (samples.empty()) return absl::UnavailableError("no tiny execute was answered");
  *out = {Percentile(samples, 0.5), Percentile(samples, 0.99),
          Percentile(report.SamplesOf("metrics_ms"), 0.99)};
  return absl::OkStatus();
}

absl::Status Run(const Settings& settings, Report& report,
                 const std::vector<std::string>& attackers) {
  Figures alone, besieged;
  {
    Report quiet;
    UOPD_TRY(Part(settings, quiet, {}, 2, &alone));
    if (quiet.violations() > 0) report.Violation("alone", "violations without any attack");
  }
  UOPD_TRY(Part(settings, report, attackers, 5, &besieged));
  report.Figure("alone_p50_ms", alone.p50);
  report.Figure("alone_p99_ms", alone.p99);
  report.Figure("besieged_p50_ms", besieged.p50);
  report.Figure("besieged_p99_ms", besieged.p99);
  report.Figure("p50_ratio", besieged.p50 / alone.p50);
  report.Figure("p99_limit_ms", 5 * alone.p99 + 20);
  report.Figure("metrics_p99_ms", besieged.metrics_p99);
  if (besieged.p50 > 3 * alone.p50) {
    report.Violation("siege", Cat("p50 ", besieged.p50, " ms, alone ", alone.p50));
  }
  if (besieged.p99 > 5 * alone.p99 + 20) {
    report.Violation("siege", Cat("p99 ", besieged.p99, " ms, alone ", alone.p99));
  }
  if (besieged.metrics_p99 > 100) {
    report.Violation("siege", Cat("p99 of /metrics ", besieged.metrics_p99, " ms"));
  }
  return absl::OkStatus();
}

const Add kAdd({"siege", "tiny executes alone and beside every kind of attack",
                [](const Settings& settings, Report& report) {
                  return Run(settings, report,
                             {"long_kernels", "endless_compiles", "unread_pipelines",
                              "silent_connections", "open_uploads"});
                }});
const Add kAddFloods({"floods", "tiny executes alone and beside floods of HTTP/2 frames",
                      [](const Settings& settings, Report& report) {
                        return Run(settings, report, {"http2_floods"});
                      }});

}  // namespace
}  // namespace uopd::chaos::siege
