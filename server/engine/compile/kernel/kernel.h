// SPDX-License-Identifier: MIT
// A kernel that is loaded on its device, ready to launch. Immutable: programs with the same kernel
// share it. It keeps its graph, so that its text can be made again for people who read it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/codegen/codegen.h"
#include "server/engine/base/compile_options.h"
#include "server/engine/base/device_set.h"

namespace uopd::engine {

struct Kernel {
  DeviceState* device = nullptr;
  std::shared_ptr<devices::Executable> executable;
  std::string name;
  std::shared_ptr<KernelUse> use;  // where its launches are counted
  std::vector<codegen::BufferUse> buffers;
  std::vector<std::string> variables;
  codegen::LaunchGeometry launch;
  // What the kernel was compiled from.
  std::string graph;  // Item::graph
  CompileOptions options;
  std::vector<codegen::Opt> opts;
  // As in codegen::LoweredKernel.
  double flops = 0, bytes = 0, estimate_ns = 0;
  DtypeNumber dtype = DtypeNumber::Void;
  bool polls = false;
  bool tuned = false;  // its opts come from tuning
  double gain = 1;     // TuningRecord::gain of its opts
  bool draft = false;  // compiled quickly; the optimised kernel is to replace it (draft_upgrades.h)
};

}  // namespace uopd::engine
