// SPDX-License-Identifier: MIT
// Runs LLVM IR for AMDGPU on this machine: the text is compiled for the CPU, and the threads of a
// block take turns at their barriers. Functions of this file stand for the instructions of the
// chip. So what the renderer writes is tested without such a chip. (Part of the programs that use
// it: it needs devices/cpu.)
//
// Not for sanitizers that follow stacks: every thread of a block has a stack of its own.
#pragma once
#include <map>
#include <string>

#include "core/codegen/codegen.h"
#include "tests/support/kernel_interpreter.h"

namespace uopd::tests {

// Renders, compiles and runs a kernel over `memory`, whose buffers are by slot, for a device of
// `target`. INTERNAL: the text does not compile.
absl::Status RunAmdgpuOnCpu(ir::UOpContext& ctx, const codegen::LoweredKernel& kernel,
                            const Target& target, Memory& memory,
                            const std::map<std::string, int64_t>& variables);

}  // namespace uopd::tests
