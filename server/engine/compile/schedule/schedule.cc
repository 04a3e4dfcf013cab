// SPDX-License-Identifier: MIT
#include "server/engine/compile/schedule/schedule.h"

#include <utility>

#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/engine/base/lookups.h"
#include "server/engine/compile/schedule/key_explainer.h"

namespace uopd::engine {
namespace {

constexpr char kScheduleStore[] = "schedule";

}  // namespace

cache::Key ScheduleKey(const Digest& graph, const GraphCompiler& graph_compiler,
                       const ScheduleTarget& target) {
  return {kScheduleStore, std::string(graph.view()),
          Cat(graph_compiler.ScheduleEnvironment(), " ", target.Text())};
}

absl::StatusOr<schedule::Schedule> Schedules::Get(RequestContext& request, Graph& graph,
                                                  const CompileOptions& options) {
  UOPD_ASSIGN(const ScheduleTarget target, TargetOf(request, graph, options));
  const cache::Key key = ScheduleKey(graph.digest(), graph_compiler_, target);
  cache::LoadOptions load{
      .limits = request.limits(),
      .use = options.caches_compiles() ? cache::Use::kReadAndKeep : cache::Use::kNone};
  for (;;) {
    UOPD_ASSIGN(const cache::Loaded loaded,
                flights_.LoadOrCompute(store_, key, load, [&](const WorkLimits& limits) {
                  return Make(request, graph, target.options, key, limits);
                }));
    const bool reads = load.use == cache::Use::kReadAndKeep;
    if (reads) CountLookup(kScheduleStore, loaded.lookup);
    const bool made = !reads || loaded.outcome == cache::LoadOutcome::kComputed;
    request.cache.schedule = made ? CacheResult::kMiss : ResultOf(loaded.outcome);
    auto schedule = schedule::Schedule::Decode(*loaded.bytes);
    if (schedule.ok()) return schedule;
    if (made) return absl::InternalError(Cat("schedule: ", StatusText(schedule.status())));
    CountCorrupt(kScheduleStore);
    UOPD_LOG(kWarn, "cached schedule is unusable, making it again", {"status", schedule.status()});
    load.use = cache::Use::kReplace;
  }
}

absl::StatusOr<ScheduleTarget> Schedules::TargetOf(RequestContext& request, Graph& graph,
                                                   const CompileOptions& options) const {
  if (devices_.size() == 1) return OnlyScheduleTarget(devices_, options);
  UOPD_TRY(graph.NeedNodes(request));
  return ScheduleTargetOf(graph.ctx(), graph.sink(), devices_, options);
}

absl::StatusOr<std::string> Schedules::Make(RequestContext& request, Graph& graph,
                                            const schedule::Options& options, const cache::Key& key,
                                            const WorkLimits& limits) const {
  UOPD_TRY(graph.NeedNodes(request));
  if (explainer_ != nullptr) explainer_->LogMiss(request, graph.ctx(), graph.sink(), key);
  ScopedPhase phase(Phase::kSchedule, &request.timings);
  Interrupt interrupt(limits);
  const InterruptScope scope(graph.ctx(), interrupt);
  UOPD_TRY(interrupt.Check());
  UOPD_ASSIGN(schedule::Schedule schedule,
              graph_compiler_.MakeSchedule(graph.ctx(), graph.sink(), options));
  metrics::Schedules().Increment();
  return schedule.Encode();
}

}  // namespace uopd::engine
