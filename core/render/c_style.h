// SPDX-License-Identifier: MIT
// Linear program -> C text, for reading: what DEBUG=4 and uopd-opt show.
#pragma once
#include "core/render/renderer.h"

namespace uopd::render {

// A C11 translation unit (vectors are arrays, with a loop over their lanes) with one function of
// the ABI of llvm_ir.h, its poll included; it compiles with gcc -O2.
absl::StatusOr<std::string> RenderC(ir::UOpContext& ctx, ir::UOp program, std::string_view name,
                                    std::span<const std::string> variables);

inline constexpr Renderer kC{ProgramFormat::kC, "c", 1, RenderC};

}  // namespace uopd::render
