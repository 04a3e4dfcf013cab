// SPDX-License-Identifier: MIT
// Renders a linear kernel as C, for people to read: DEBUG=4 and uopd-opt show it.
#pragma once
#include "core/render/renderer.h"

namespace uopd::render {

// A C11 translation unit with one function, with the ABI of llvm_ir.h, polls included. Vectors are
// arrays with loops over their lanes. gcc -O2 compiles it.
absl::StatusOr<std::string> RenderC(ir::UOpContext& ctx, ir::UOp linear, std::string_view name,
                                    std::span<const std::string> variables);

inline constexpr Renderer kC{CodeFormat::kC, "c", 2, [](const Request& r) {
                               return RenderC(r.ctx, r.linear, r.name, r.variables);
                             }};

}  // namespace uopd::render
