// SPDX-License-Identifier: MIT
// Constructors of index arithmetic in normal form (terms.h).
//
// Passes that create many index expressions use them, so the rules need not rewrite each one
// afterwards. All arguments have dtype index. If the normal form might not fit 64 bits, the plain
// node is created instead.
#pragma once
#include <span>

#include "core/ir/context.h"

namespace uopd::rules {

ir::UOp IndexSum(ir::UOpContext& ctx, ir::UOp a, ir::UOp b);
ir::UOp IndexProduct(ir::UOpContext& ctx, ir::UOp a, ir::UOp b);
// u with other sources; a sum or product of indices is created in normal form.
ir::UOp WithIndexSources(ir::UOpContext& ctx, ir::UOp u, std::span<const ir::UOp> src);

}  // namespace uopd::rules
