// SPDX-License-Identifier: MIT
// Runs what codegen made on the interpreter of linear kernels.
#pragma once
#include <map>
#include <string>

#include "core/codegen/codegen.h"
#include "tests/support/kernel_interpreter.h"

namespace uopd::tests {

// Runs the kernel over `memory`, whose buffers are by slot, for a device of `target`. The error is
// a report of the interpreter.
absl::Status RunLowered(ir::UOpContext& ctx, const codegen::LoweredKernel& kernel,
                        const Target& target, Memory& memory,
                        const std::map<std::string, int64_t>& variables);

// A target with blocks and warps of 32 lanes, which exchange values if `shuffles`.
Target BlockTarget(bool shuffles);

}  // namespace uopd::tests
