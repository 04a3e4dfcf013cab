// SPDX-License-Identifier: MIT
// Renders a linear kernel for blocks of threads (docs/ir_linear.md, "Blocks") as LLVM IR text for AMDGPU. Does
// not link LLVM.
#pragma once
#include "core/render/renderer.h"

namespace uopd::render {

// A module with one kernel:
//   define protected amdgpu_kernel void @NAME(ptr addrspace(1) %b0, ..., i64 %var0, ..., ptr addrspace(1) %stop)
// with one pointer for each slot, one i64 for each variable, and the pointer to the stop word, an i32. Every
// argument has 8 bytes. Shared arrays are part of the kernel: a launch adds no shared memory.
//
// In kernels whose threads wait for each other, or exchange values, all threads of a block poll together.
// UNIMPLEMENTED names an op that has no rendering.
absl::StatusOr<std::string> RenderAmdgpuIr(const Request& request);

inline constexpr Renderer kAmdgpuIr{CodeFormat::kAmdgpuIr, "amdgpu_ir", 1, RenderAmdgpuIr};

}  // namespace uopd::render
