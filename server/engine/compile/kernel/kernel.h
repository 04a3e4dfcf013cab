// SPDX-License-Identifier: MIT
// A kernel that is loaded on its device, ready to launch. Immutable: programs with the same kernel
// share it. It keeps its graph, so that its text can be made again for people who read it.
#pragma once
#include <memory>
#include <string>

#include "core/codegen/kernel_info.h"
#include "server/engine/base/compile_options.h"
#include "server/engine/base/device_set.h"

namespace uopd::engine {

struct Kernel : codegen::KernelInfo {
  DeviceState* device = nullptr;
  std::shared_ptr<devices::Executable> executable;
  std::shared_ptr<KernelUse> use;  // where its launches are counted
  // What the kernel was compiled from.
  std::string graph;  // Item::graph
  CompileOptions options;
  bool tuned = false;  // its opts come from tuning
  double gain = 1;     // TuningRecord::gain of its opts
  bool draft = false;  // compiled quickly; the optimised kernel is to replace it (draft_upgrades.h)
};

}  // namespace uopd::engine
