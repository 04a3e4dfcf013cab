// SPDX-License-Identifier: MIT
#include "server/engine/compile/program_tuning.h"

#include <utility>

namespace uopd::engine {

std::optional<TuningTask> TuningTaskOf(const std::shared_ptr<ProgramHandle>& program,
                                       const std::shared_ptr<KernelSet>& kernels,
                                       KernelLoader& loader, DeviceSet& devices) {
  if (kernels->options.beam == 0) return std::nullopt;
  TuningTask task;
  task.options = kernels->options;
  bool any = false;
  for (const ScheduledKernel& scheduled : kernels->kernels) {
    task.kernels.push_back({.graph = scheduled.graph,
                            .device = &scheduled.device->device(),
                            .name = scheduled.kernel->name,
                            .done = scheduled.kernel->tuned});
    any |= !scheduled.kernel->tuned;
  }
  if (!any) return std::nullopt;
  task.program = program;
  // Several tuning threads may find something at the same time.
  auto swapping = std::make_shared<Mutex>();
  task.use = [kernels, swapping, &loader, &devices, weak = std::weak_ptr(program)](
                 size_t i, const TuningRecord& found) -> absl::Status {
    const auto program = weak.lock();
    if (program == nullptr) return absl::OkStatus();
    KernelRequest wanted = kernels->RequestOf(i);
    wanted.opts = &found.opts;
    PhaseTimings timings;  // belongs to no request
    UOPD_ASSIGN(LoadedKernel tuned, loader.Get(RequestContext(), wanted, &timings));
    MutexLock lock(*swapping);
    kernels->kernels[i].kernel = std::move(tuned.kernel);
    UOPD_ASSIGN(auto better, AssembleProgram(program->Get()->digest, *kernels, devices));
    program->Swap(std::move(better));
    return absl::OkStatus();
  };
  return task;
}

}  // namespace uopd::engine
