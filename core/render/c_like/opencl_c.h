// SPDX-License-Identifier: MIT
// Renders a linear kernel for blocks as OpenCL C 1.2.
#pragma once
#include "core/render/renderer.h"

namespace uopd::render {

// One kernel function with the parameters of docs/ir_linear.md. f16 is loaded and stored as bits and converted
// by vload_half and vstore_half, so that no extension is needed. UNIMPLEMENTED: SHUFFLE and MMA.
absl::StatusOr<std::string> RenderOpenClC(const Request& request);

inline constexpr Renderer kOpenClC{CodeFormat::kOpenClC, "opencl_c", 1, RenderOpenClC};

}  // namespace uopd::render
