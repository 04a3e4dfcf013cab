// SPDX-License-Identifier: MIT
// Renders a linear kernel as LLVM IR text for devices/cpu. Does not link LLVM.
#pragma once
#include "core/render/renderer.h"

namespace uopd::render {

// A module with one external function: define void @NAME(ptr %buffers, ptr %vars, i64 %thread).
//   %buffers  an array of pointers, by PARAM slot; %buffers[-1] points to the stop word, an i32;
//             %buffers[-2] to the arrays that the threads of the launch share (BUFFER {LOCAL}), 16
//             bytes an element, all zeros when the launch begins
//   %vars     an array of i64, in the order of `variables`
//   %thread   the value of SPECIAL {THREAD}
// A loop that polls (docs/ir_linear.md) returns from the function if the stop word is not 0, and so does
// a thread that waits for another one. Threads wait for lower numbers only.
// UNIMPLEMENTED names an op that has no rendering.
absl::StatusOr<std::string> RenderLlvmIr(ir::UOpContext& ctx, ir::UOp linear, std::string_view name,
                                         std::span<const std::string> variables);

inline constexpr Renderer kLlvmIr{CodeFormat::kLlvmIr, "llvm_ir", 3, [](const Request& r) {
                                    return RenderLlvmIr(r.ctx, r.linear, r.name, r.variables);
                                  }};

}  // namespace uopd::render
