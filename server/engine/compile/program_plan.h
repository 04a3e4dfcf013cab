// SPDX-License-Identifier: MIT
// A schedule with the kernels that it needs, each once, and what has been chosen for them so far:
// from which a program is assembled, and assembled again when a better kernel is there.
//
// Plain data of one thread at a time. Points into itself, so it stays where it was made.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "server/engine/compile/kernel_loader.h"
#include "server/engine/compile/program.h"

namespace uopd::engine {

// One kernel to get, and the items that want it.
struct PlannedKernel {
  std::string_view graph;  // Item::graph
  DeviceState* device = nullptr;
  std::vector<int64_t> capacities;  // bytes of each buffer, the least over all items
  std::vector<size_t> items;
  std::shared_ptr<const Kernel> kernel;
};

struct ProgramPlan {
  Digest digest;
  CompileOptions options;
  schedule::Schedule schedule;
  std::vector<PlannedKernel> kernels;

  static absl::StatusOr<std::shared_ptr<ProgramPlan>> Make(const Digest& digest,
                                                           const CompileOptions& options,
                                                           schedule::Schedule schedule,
                                                           DeviceSet& devices);
  KernelRequest RequestOf(size_t kernel) const;
  // REQUIRES: every kernel is there. INTERNAL when they do not fit the schedule.
  absl::StatusOr<std::shared_ptr<const Program>> Assemble(DeviceSet& devices) const;
};

}  // namespace uopd::engine
