// SPDX-License-Identifier: MIT
// Renders a linear kernel as the text of its own lines (core/ir/io/linear_text.h), for devices that interpret
// them.
#pragma once
#include "core/render/renderer.h"

namespace uopd::render {

// Renders every kernel: all that may be in a linear kernel has a text. Stateless.
absl::StatusOr<std::string> RenderLinear(const Request& request);

inline constexpr Renderer kLinear{CodeFormat::kLinear, "linear", 1, RenderLinear};

}  // namespace uopd::render
