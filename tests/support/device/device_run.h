// SPDX-License-Identifier: MIT
// Runs what codegen made on a device. (Part of the programs that use it, not of uopd_test_support:
// it needs the devices.)
#pragma once
#include <map>
#include <string>

#include "core/codegen/codegen.h"
#include "devices/api/device.h"
#include "tests/support/kernel_interpreter.h"

namespace uopd::tests {

// Renders, compiles, loads and runs a kernel for the device's target over `memory`, whose buffers
// are by slot. INTERNAL: it stored outside of a buffer.
absl::Status RunOnDevice(devices::Device& device, ir::UOpContext& ctx,
                         const codegen::LoweredKernel& kernel, Memory& memory,
                         const std::map<std::string, int64_t>& variables);

}  // namespace uopd::tests
