// SPDX-License-Identifier: MIT
// Renders a linear kernel for blocks as HIP C++ that needs neither headers nor device libraries, for clang.
#pragma once
#include "core/render/renderer.h"

namespace uopd::render {

// One function, extern "C", with the parameters of docs/ir_linear.md. Compile it with -ffp-contract=off.
// UNIMPLEMENTED: functions of the math library of f64 but fma, sqrt and trunc.
absl::StatusOr<std::string> RenderHipC(const Request& request);

inline constexpr Renderer kHipC{CodeFormat::kHipC, "hip_c", 1, RenderHipC};

}  // namespace uopd::render
