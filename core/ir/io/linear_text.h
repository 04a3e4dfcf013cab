// SPDX-License-Identifier: MIT
// The text of a whole linear kernel (docs/ir_linear.md): what a device needs to run it.
//
//   kernel r_8
//   variables n m
//   %0 = ...
//
// The second line names the variables in the order of a launch; it is left out if there are none.
// The rest is the graph as print.h prints it; its last node is the LINEAR.
// ParseLinear(PrintLinear(x)) is x.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::ir {

struct LinearText {
  UOp linear;
  std::string name;                    // of the kernel
  std::vector<std::string> variables;  // in launch order
};

// REQUIRES: the name and the variables have no spaces and no line breaks (IsName).
std::string PrintLinear(const UOpContext& ctx, const LinearText& kernel);

// Parses into ctx. INVALID_ARGUMENT names the line; those of the graph are counted from
// 1. The nodes are well formed and not verified.
absl::StatusOr<LinearText> ParseLinear(UOpContext& ctx, std::string_view text);

}  // namespace uopd::ir
