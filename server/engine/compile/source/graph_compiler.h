// SPDX-License-Identifier: MIT
// The graph compiler: the compiler as the engine sees it. It makes schedules of graphs, source text
// of kernel graphs, and the text that identifies this compiler in keys.
//
// Thread-safe. Every call works in contexts of its own or in the caller's. An error in a graph is
// reported with the node at fault. INTERNAL means a bug of the compiler.
#pragma once
#include <string>
#include <string_view>

#include "core/base/interrupt.h"
#include "core/base/status.h"
#include "core/base/telemetry/trace.h"
#include "core/ir/context.h"
#include "core/schedule/schedule.h"
#include "devices/api/device.h"
#include "server/engine/base/compile_options.h"
#include "server/engine/compile/source/kernel_record.h"

namespace uopd::engine {

// The forms of a kernel that people read.
struct KernelText {
  std::string source;  // as given to the device's compiler
  std::string lines;   // the linear kernel in textual form
  std::string graph;   // what codegen started from, in textual form
};

class GraphCompiler {
 public:
  virtual ~GraphCompiler() = default;

  // The environment keys of schedules contain this text, and those of choices the next one
  // (docs/architecture.md, decision 4).
  virtual std::string ScheduleEnvironment() const = 0;
  // What decides the answer of LowerKernel besides its graph and its opts.
  virtual std::string ChoiceEnvironment(const devices::Device& device,
                                        const CompileOptions& options) const = 0;

  // Ends early when the context's Interrupt asks for it. REQUIRES: sink passed ir::Verify(...,
  // Level::kTensor).
  virtual absl::StatusOr<schedule::Schedule> MakeSchedule(
      ir::UOpContext& ctx, ir::UOp sink, const schedule::Options& options) const = 0;
  // `graph` is an Item::graph of a schedule. `opts` null: the heuristic chooses the opts, or there
  // are none with noopt. `draft`: a kernel that is compiled quickly, with the same results.
  // INVALID_ARGUMENT: an opt does not apply. Adds to `timings`.
  // `maybe_interrupt` ends the call early.
  virtual absl::StatusOr<KernelSource> LowerKernel(std::string_view graph,
                                                   const devices::Device& device,
                                                   const CompileOptions& options,
                                                   const std::vector<codegen::Opt>* opts,
                                                   bool draft, PhaseTimings* timings,
                                                   Interrupt* maybe_interrupt) const = 0;
  // The texts of the kernel that LowerKernel makes of the same arguments.
  virtual absl::StatusOr<KernelText> ExplainKernel(std::string_view graph,
                                                   const devices::Device& device,
                                                   const CompileOptions& options,
                                                   const std::vector<codegen::Opt>* opts,
                                                   Interrupt* maybe_interrupt) const = 0;
};

}  // namespace uopd::engine
