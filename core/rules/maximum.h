// SPDX-License-Identifier: MIT
// Simplification of the MAX of two index expressions (the rule index.max).
#pragma once
#include "core/ir/context.h"

namespace uopd::rules {

// A simpler expression equal to u, a MAX of index expressions; null if there is none. It is one
// side if that side is never smaller. Otherwise the common terms, constant and factor of both sides
// move out of the MAX.
ir::UOp SimplifyMax(ir::UOpContext& ctx, ir::UOp u);

}  // namespace uopd::rules
