// SPDX-License-Identifier: MIT
#include "server/engine/compile/program/program_tuning.h"

#include <utility>

namespace uopd::engine {

std::optional<TuningTask> TuningTaskOf(const std::shared_ptr<ProgramHandle>& program,
                                       const std::shared_ptr<ProgramUpdate>& update,
                                       KernelLoader& loader) {
  if (update->options().beam == 0) return std::nullopt;
  TuningTask task;
  task.options = update->options();
  bool any = false;
  for (size_t i = 0; i < update->size(); ++i) {
    const KernelRequest wanted = update->RequestOf(i);
    if (wanted.device->device().info().compiles_only) return std::nullopt;
    const std::shared_ptr<const Kernel> kernel = update->KernelAt(i);
    task.kernels.push_back({.graph = wanted.graph,
                            .device = &wanted.device->device(),
                            .name = kernel->name,
                            .done = kernel->tuned});
    any |= !kernel->tuned;
  }
  if (!any) return std::nullopt;
  task.program = program;
  task.use = [update, &loader](size_t i, const TuningRecord& found) -> absl::Status {
    if (!update->wanted()) return absl::OkStatus();
    const KernelRequest wanted = update->RequestOf(i).TunedAs(found);
    PhaseTimings timings;  // belongs to no request
    UOPD_ASSIGN(LoadedKernel tuned, loader.Get(RequestContext(), wanted, &timings));
    return update->Replace(i, std::move(tuned.kernel));
  };
  return task;
}

}  // namespace uopd::engine
