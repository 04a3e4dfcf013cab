// SPDX-License-Identifier: MIT
#include "core/render/formats.h"

#include "core/ir/io/linear_text.h"

namespace uopd::render {

absl::StatusOr<std::string> RenderLinear(const Request& r) {
  return ir::PrintLinear(r.ctx,
                         {r.linear, std::string(r.name), {r.variables.begin(), r.variables.end()}});
}

}  // namespace uopd::render
