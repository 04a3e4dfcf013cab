// SPDX-License-Identifier: MIT
// Renders a linear kernel for blocks as PTX.
#pragma once
#include "core/render/renderer.h"

namespace uopd::render {

// One entry with the parameters of docs/ir_linear.md. It means what the text of cuda_c.h means. Shared arrays are
// dynamic shared memory: a launch passes LaunchShape::shared_bytes. UNIMPLEMENTED: functions of f64 but SQRT and
// TRUNC.
absl::StatusOr<std::string> RenderPtx(const Request& request);

inline constexpr Renderer kPtx{CodeFormat::kPtx, "ptx", 1, RenderPtx};

}  // namespace uopd::render
