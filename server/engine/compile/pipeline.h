// SPDX-License-Identifier: MIT
// The compiler as the engine sees it: graphs to schedules, kernel graphs to source text, and the
// text that says which compiler that is.
//
// Thread-safe; every call works in contexts of its own or the caller's. Errors about the graph are
// the pipeline's to blame on its nodes; INTERNAL is its own bug.
#pragma once
#include <string>
#include <string_view>

#include "core/base/interrupt.h"
#include "core/base/status.h"
#include "core/base/trace.h"
#include "core/ir/context.h"
#include "core/schedule/schedule.h"
#include "devices/api/device.h"
#include "server/engine/base/compile_options.h"
#include "server/engine/compile/kernel_record.h"

namespace uopd::engine {

// A kernel on its way to the device's compiler.
struct KernelSource {
  KernelRecord record;  // all but the object
  std::string text;
};

class Pipeline {
 public:
  virtual ~Pipeline() = default;

  // The parts of the environment keys (docs/architecture.md, decision 4) of the two steps.
  virtual std::string ScheduleEnvironment() const = 0;
  virtual std::string KernelEnvironment(const devices::Device& device,
                                        const CompileOptions& options) const = 0;

  // Ends early as the context's Interrupt says. REQUIRES: sink passed ir::Verify(...,
  // Stage::kTensor).
  virtual absl::StatusOr<schedule::Schedule> MakeSchedule(
      ir::UOpContext& ctx, ir::UOp sink, const schedule::Options& options) const = 0;
  // `graph` is an Item::graph of a schedule. `opts` null: the heuristic's, or none with noopt; what
  // does not apply is INVALID_ARGUMENT. Adds to `timings`. `maybe_interrupt` ends it early.
  virtual absl::StatusOr<KernelSource> LowerKernel(std::string_view graph,
                                                   const devices::Device& device,
                                                   const CompileOptions& options,
                                                   const std::vector<codegen::Opt>* opts,
                                                   PhaseTimings* timings,
                                                   Interrupt* maybe_interrupt) const = 0;
};

}  // namespace uopd::engine
