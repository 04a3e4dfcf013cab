// SPDX-License-Identifier: MIT
// What there is to tune in a graph, and the tasks that tune it (tuning_service.h). A TuningPlan has
// the kernels of a graph, each once, with an estimate of where the time of a run goes. It is
// immutable, and owns the graphs of its kernels.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/digest.h"
#include "core/base/interrupt.h"
#include "server/engine/compile/kernel/kernels.h"
#include "server/engine/compile/program/program_update.h"
#include "server/engine/compile/source/graph_compiler.h"
#include "server/engine/tune/tuning_service.h"

namespace uopd::engine {

struct TuningPlan {
  static constexpr size_t kMaxKernels = 4096;

  struct Kernel {
    std::string name;       // of the heuristic's kernel
    Digest graph;           // hash of the kernel's graph
    uint32_t launches = 0;  // in one run of the program
    double estimate_s =
        0;  // of one launch of the heuristic's kernel, by the model of codegen; 0: unknown
  };

  Digest digest;                   // of the graph
  std::shared_ptr<KernelSet> set;  // nothing is loaded
  std::vector<Kernel>
      kernels;  // as set->kernels; by the estimate for all launches, the most expensive first

  const ScheduledKernel& ScheduledAt(size_t i) const { return set->kernels[i]; }
  const devices::Device& DeviceOf(size_t i) const { return set->kernels[i].device->device(); }
  const CompileOptions& options() const { return set->options; }
};

// Fills in TuningPlan::kernels. Errors as CompileService::PlanTuning says. `interrupt` ends the
// call early.
absl::Status DescribeKernels(const GraphCompiler& graph_compiler, Interrupt& interrupt,
                             TuningPlan& plan);

// A task that tunes these kernels of the plan, in this order. `loader` outlives it.
TuningTask TuningTaskOf(const std::shared_ptr<const TuningPlan>& plan,
                        const std::vector<size_t>& kernels,
                        std::shared_ptr<TuningObserver> observer, KernelLoader& loader);

// A task for behind the answer to a request: it tunes the kernels of `program`, and `update` swaps
// in each that tuning makes faster. nullopt: the request wants no tuning, or every kernel is tuned
// already. `loader` outlives the task. The task does not keep the program alive.
std::optional<TuningTask> TuningTaskOf(const std::shared_ptr<ProgramHandle>& program,
                                       const std::shared_ptr<ProgramUpdate>& update,
                                       KernelLoader& loader);

}  // namespace uopd::engine
