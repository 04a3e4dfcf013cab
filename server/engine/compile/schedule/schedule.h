// SPDX-License-Identifier: MIT
// The schedule of a graph. It is the second artefact of a compile (compile_service.h).
//
// Schedules gets it from the store "schedule", or makes it and stores it there. A damaged value
// from the store is counted, made again and replaced.
#pragma once
#include <string>

#include "cache/load_or_compute.h"
#include "core/base/work_limits.h"
#include "server/engine/compile/schedule/graph.h"
#include "server/engine/compile/schedule/schedule_target.h"
#include "server/engine/compile/source/graph_compiler.h"

namespace uopd::engine {

class KeyExplainer;

// The key of the schedule of the graph with this digest. The store "graph" has the graph.
cache::Key ScheduleKey(const Digest& graph, const GraphCompiler& graph_compiler,
                       const ScheduleTarget& target);

// Thread-safe. If several callers want the same schedule at the same time, it is made once.
class Schedules {
 public:
  // References and pointers outlive this object. With a null explainer, misses are not explained.
  Schedules(const GraphCompiler& graph_compiler, cache::Store& store, DeviceSet& devices,
            KeyExplainer* explainer)
      : graph_compiler_(graph_compiler), store_(store), devices_(devices), explainer_(explainer) {}

  // Fills request.timings and request.cache.
  absl::StatusOr<schedule::Schedule> Get(RequestContext& request, Graph& graph,
                                         const CompileOptions& options);

 private:
  absl::StatusOr<ScheduleTarget> TargetOf(RequestContext& request, Graph& graph,
                                          const CompileOptions& options) const;
  // Makes the encoded schedule. `limits` may end it early.
  absl::StatusOr<std::string> Make(RequestContext& request, Graph& graph,
                                   const schedule::Options& options, const cache::Key& key,
                                   const WorkLimits& limits) const;

  const GraphCompiler& graph_compiler_;
  cache::Store& store_;
  DeviceSet& devices_;
  KeyExplainer* const explainer_;
  cache::LoadGroup flights_;
};

}  // namespace uopd::engine
