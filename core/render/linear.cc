// SPDX-License-Identifier: MIT
#include "core/render/linear.h"

#include "core/ir/io/linear_text.h"

namespace uopd::render {

absl::StatusOr<std::string> RenderLinear(ir::UOpContext& ctx, ir::UOp linear, std::string_view name,
                                         std::span<const std::string> variables) {
  return ir::PrintLinear(ctx, {linear, std::string(name), {variables.begin(), variables.end()}});
}

}  // namespace uopd::render
