// SPDX-License-Identifier: MIT
// TC by a matrix instruction that reads its operands from shared memory
// (MatrixInstruction::in_shared).
//
// TC packs both operands. Each iteration of the loops that are left of the reduced axes stages a
// piece of them anew, with or without BLOCK: the instruction needs at least the steps of one
// instruction. A piece lies in swizzled rows (shared_rows.h), along the sum or, for elements of 16
// bits that lie so in memory, across it.
#include "core/codegen/gpu/product/warp_product.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::codegen {

using ir::Op;
using ir::UOp;

std::string MaybeNoGroup(const PlanView& plan, const Factors& factors) {
  if (plan.kernel().in_place) return "the kernel loads what it stores";
  for (const PlanAxis& axis : plan.state.axes) {
    if (axis.is_reduce && axis.size < 0) return "a reduced axis has a symbolic size";
  }
  for (UOp factor : {factors.a, factors.b}) {
    for (UOp u : ir::Toposort(plan.ctx, factor)) {
      if (u.Is(Op::SCAN)) return "an operand needs a running sum";
    }
  }
  return "";
}

UOp MakeGroupProduct(Making& making, UOp reduce, const Factors& operands, UOp maybe_valid) {
  ir::UOpContext& ctx = making.ctx();
  const PlanState& state = making.state();
  const MatrixInstruction& instruction = *state.instruction;
  const auto staged = [&](UOp value, char own, size_t own_axis) {
    const StagedOperand operand{value,
                                maybe_valid,
                                nullptr,
                                own,
                                TileOf(making, own_axis),
                                TileOf(making, state.sum_axis),
                                [&](UOp word) { return PartsOf(making, word, true); }};
    return StageMatrix(ctx, operand, making.loads_words, making.next_id);
  };
  const SharedOperand a = staged(operands.a, 'r', state.rows_axis),
                      b = staged(operands.b, 'c', state.columns_axis);
  const ir::GroupMma mma{instruction.m,
                         instruction.n,
                         instruction.k,
                         static_cast<int64_t>(instruction.a),
                         static_cast<int64_t>(instruction.b),
                         instruction.sum_place.lanes(),
                         a.matrix,
                         b.matrix};
  return ctx.Make(Op::GROUP_PRODUCT, reduce.dtype(), {a.begin, b.begin}, mma.ToArg(ctx));
}

}  // namespace uopd::codegen
