// SPDX-License-Identifier: MIT
// OptPlan: TC by a matrix instruction that reads its operands from shared memory (MatrixInstruction::in_shared).
//
// TC packs both operands. Each iteration of the loops that are left of the reduced axes stages a piece of them anew,
// with or without BLOCK: the instruction needs at least the steps of one instruction. A piece lies in swizzled rows
// (shared_rows.h), along the sum or, for elements of 16 bits that lie so in memory, across it.
#include <algorithm>

#include "core/codegen/opt/blocks/staged_operand.h"
#include "core/codegen/opt/opt_plan.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::codegen {

using ir::Op;
using ir::UOp;

std::string OptPlan::MaybeNoGroup(const Factors& factors) const {
  if (in_place_) return "the kernel loads what it stores";
  for (const Axis& axis : axes_) {
    if (axis.is_reduce && axis.size < 0) return "a reduced axis has a symbolic size";
  }
  for (UOp factor : {factors.a, factors.b}) {
    for (UOp u : ir::Toposort(ctx_, factor)) {
      if (u.Is(Op::SCAN)) return "an operand needs a running sum";
    }
  }
  return "";
}

bool OptPlan::IsStepped(const Axis& axis) const {
  if (!axis.is_reduce) return false;
  if (axis.HasBlock()) return true;
  if (!instruction_ || !instruction_->in_shared()) return false;
  return std::ranges::any_of(order_, [&](UOp u) {
    if (!IsTensorCore(u)) return false;
    const auto closed = u.closed();
    return std::ranges::find(closed, axis.range) != closed.end();
  });
}

UOp OptPlan::MakeGroupProduct(UOp reduce, const Factors& operands, UOp maybe_valid,
                              std::span<const MadeAxis> made, int64_t& next_id) {
  const auto staged = [&](UOp value, char own, size_t own_axis) {
    const auto tile = [&](size_t axis) {
      return InstructionTile{axis, made[axis].maybe_mma, made[axis].mma_stride};
    };
    const StagedOperand operand{
        value, maybe_valid, nullptr, own, tile(own_axis), tile(group_axis_), [&](UOp word) {
          return PartsOf(word, made, true);
        }};
    return StageMatrix(ctx_, operand, loads_words_, next_id);
  };
  const SharedOperand a = staged(operands.a, 'r', rows_axis_),
                      b = staged(operands.b, 'c', columns_axis_);
  const ir::GroupMma mma{instruction_->m,
                         instruction_->n,
                         instruction_->k,
                         static_cast<int64_t>(instruction_->a),
                         static_cast<int64_t>(instruction_->b),
                         instruction_->sum_place.lanes(),
                         a.matrix,
                         b.matrix};
  return ctx_.Make(Op::GROUP_PRODUCT, reduce.dtype(), {a.begin, b.begin}, mma.ToArg(ctx_));
}

}  // namespace uopd::codegen
