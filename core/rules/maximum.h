// SPDX-License-Identifier: MIT
// The larger of two index expressions.
#pragma once
#include "core/ir/context.h"

namespace uopd::rules {

// A simpler expression equal to the MAX `u` of index expressions, or null: the side that is never
// smaller, or what both sides have in common (terms, a constant, a factor) moved out of it.
ir::UOp SimplifyMax(ir::UOpContext& ctx, ir::UOp u);

}  // namespace uopd::rules
