// SPDX-License-Identifier: MIT
// A kernel that is loaded on its device, ready to launch. Immutable: programs with the same kernel
// share it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/codegen/codegen.h"
#include "server/engine/base/device_set.h"

namespace uopd::engine {

struct Kernel {
  DeviceState* device = nullptr;
  std::shared_ptr<devices::Executable> executable;
  std::string name;
  std::vector<codegen::BufferUse> buffers;
  std::vector<std::string> variables;
  codegen::LaunchGeometry launch;
  double flops = 0, bytes = 0, estimate_ns = 0;  // as in codegen::LoweredKernel
  bool polls = false;
  bool tuned = false;  // its opts come from tuning
};

}  // namespace uopd::engine
