// SPDX-License-Identifier: MIT
// Index arithmetic made as the rules would leave it (terms.h): passes that make many indices spare
// them the rewriting of each.
//
// The arguments have dtype index. What cannot be shown to fit 64 bits in another form is made as it
// is asked for.
#pragma once
#include <span>

#include "core/ir/context.h"

namespace uopd::rules {

ir::UOp IndexSum(ir::UOpContext& ctx, ir::UOp a, ir::UOp b);
ir::UOp IndexProduct(ir::UOpContext& ctx, ir::UOp a, ir::UOp b);
// u with other sources, where sums and products of indices are made as above.
ir::UOp WithIndexSources(ir::UOpContext& ctx, ir::UOp u, std::span<const ir::UOp> src);

}  // namespace uopd::rules
