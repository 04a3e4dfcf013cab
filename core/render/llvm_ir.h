// SPDX-License-Identifier: MIT
// Linear program -> LLVM IR text for devices/cpu. Text only: needs no LLVM.
#pragma once
#include "core/render/renderer.h"

namespace uopd::render {

// The module with `define void @NAME(ptr %buffers, ptr %vars, i64 %thread)`: %buffers an array of
// pointers by PARAM slot, %vars an array of i64 in the order of `variables`, %thread the value of
// the THREAD special. A loop that polls (docs/ir_programs.md) reads the i32 that %buffers[-1]
// points to and returns once it is not 0. UNIMPLEMENTED names an op that has no rendering.
absl::StatusOr<std::string> RenderLlvmIr(ir::UOpContext& ctx, ir::UOp program,
                                         std::string_view name,
                                         std::span<const std::string> variables);

inline constexpr Renderer kLlvmIr{ProgramFormat::kLlvmIr, "llvm_ir", 3, RenderLlvmIr};

}  // namespace uopd::render
