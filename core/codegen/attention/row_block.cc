// SPDX-License-Identifier: MIT
#include "core/codegen/attention/row_block.h"

#include "core/ir/build.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {

using ir::Op;
using ir::UOp;

bool RowBlock::IsOverRow(UOp u) const {
  if (!u.Is({Op::REDUCE, Op::STAGE}) || !ir::IsFloat(u.dtype()) || u.closed().size() != 1)
    return false;
  const UOp r = u.closed()[0];
  if (r.axis_type() != ir::AxisType::REDUCE || r.src(0) != size_) return false;
  return u.Is(Op::REDUCE) ||
         (u.src(1) == r && u.src(2).IsConstInt(1) && ctx_.BoundsOf(size_).max == u.arg().AsInt());
}

bool RowBlock::IsElement(UOp u, UOp range) const {
  return u.Is(Op::LOAD) && u.src(0).src(0).Is(Op::STAGE) && IsOverRow(u.src(0).src(0)) &&
         u.src(0).n_src() == 2 && u.src(0).src(1) == range;
}

UOp RowBlock::Begin() const { return rules::IndexProduct(ctx_, block_, ctx_.Idx(n_)); }

UOp RowBlock::InBlock(UOp range) {
  UOp& out = in_block_[range.id()];
  if (!out) out = Range(ctx_, ctx_.Idx(n_), range.axis_id(), range.axis_type());
  return out;
}

UOp RowBlock::InRow(UOp range) { return rules::IndexSum(ctx_, Begin(), InBlock(range)); }

UOp RowBlock::MaybeValid(UOp range) {
  if (size_.Is(Op::CONST) && size_.const_int() % n_ == 0) return {};
  const UOp at = InRow(range);
  return Lt(ctx_, at, size_);
}

}  // namespace uopd::codegen
