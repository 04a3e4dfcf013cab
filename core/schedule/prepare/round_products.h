// SPDX-License-Identifier: MIT
// Computes products of f32 values from operands that are rounded to bf16, f16 or tf32, where the
// client allows it (Options::allowed_products) and the device has an instruction for it. Runs
// before Prepare (prepare.h).
//
//   REDUCE ADD (a * b)  ->  REDUCE ADD (f32(bf16(a)) * f32(bf16(b)))
//
// The product of two bf16 values is exact in f32, and so is that of two f16 or tf32 values. The sum
// stays in f32. So an operand is rounded once, and nothing else changes.
//
// Only products that use an operand several times are rewritten: an operand must be the same along
// an axis of the result. These are products of matrices, convolutions and the products of
// attention. Dot products, sums of squares and other sums stay exact. So do sums that select values
// by a mask, such as a lookup in a table.
//
// An operand that is used at least kReuse times is rounded below its movement ops. There it has its
// own size, and fusion.h writes it to memory if that is cheaper. Any other operand is rounded where
// it is used.
#pragma once
#include <vector>

#include "core/ir/context.h"
#include "core/schedule/schedule.h"

namespace uopd::schedule {

// `order` is the graph, sources first. Returns its root.
ir::UOp RoundProducts(ir::UOpContext& ctx, const std::vector<ir::UOp>& order,
                      const Options& options);

}  // namespace uopd::schedule
