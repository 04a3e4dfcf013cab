// SPDX-License-Identifier: MIT
// Renders a linear kernel for blocks as Metal.
#pragma once
#include "core/render/renderer.h"

namespace uopd::render {

// One kernel function with the parameters of docs/ir_linear.md; each variable is a constant of 64 bits. No device
// of this project takes it yet. UNIMPLEMENTED: MMA, and SHUFFLE of 64 bits.
absl::StatusOr<std::string> RenderMetal(const Request& request);

inline constexpr Renderer kMetal{CodeFormat::kMetal, "metal", 1, RenderMetal};

}  // namespace uopd::render
