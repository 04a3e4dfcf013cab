// SPDX-License-Identifier: MIT
#include "server/engine/compile/program_plan.h"

#include <algorithm>
#include <map>

namespace uopd::engine {

absl::StatusOr<std::shared_ptr<ProgramPlan>> ProgramPlan::Make(const Digest& digest,
                                                               const CompileOptions& options,
                                                               schedule::Schedule schedule,
                                                               DeviceSet& devices) {
  auto plan = std::make_shared<ProgramPlan>();
  plan->digest = digest;
  plan->options = options;
  plan->schedule = std::move(schedule);
  std::map<std::pair<std::string_view, DeviceState*>, size_t> index;
  for (size_t i = 0; i < plan->schedule.items.size(); ++i) {
    const schedule::Item& item = plan->schedule.items[i];
    UOPD_ASSIGN(DeviceState * device, devices.Get(item.device));
    if (item.kind != schedule::Item::kKernel) continue;
    auto [it, added] = index.try_emplace({item.graph, device}, plan->kernels.size());
    if (added) {
      plan->kernels.push_back({.graph = item.graph, .device = device});
      plan->kernels.back().capacities.assign(item.buffers.size(), INT64_MAX);
    }
    PlannedKernel& kernel = plan->kernels[it->second];
    kernel.items.push_back(i);
    for (size_t b = 0; b < item.buffers.size() && b < kernel.capacities.size(); ++b) {
      kernel.capacities[b] =
          std::min(kernel.capacities[b], BufferBytes(plan->schedule, item.buffers[b]));
    }
  }
  return plan;
}

KernelRequest ProgramPlan::RequestOf(size_t kernel) const {
  const PlannedKernel& planned = kernels[kernel];
  return {planned.graph, planned.device, options, nullptr, planned.capacities};
}

absl::StatusOr<std::shared_ptr<const Program>> ProgramPlan::Assemble(DeviceSet& devices) const {
  std::vector<std::shared_ptr<const Kernel>> by_item(schedule.items.size());
  for (const PlannedKernel& planned : kernels) {
    for (size_t item : planned.items) by_item[item] = planned.kernel;
  }
  return AssembleProgram(digest, schedule, devices, by_item);
}

}  // namespace uopd::engine
