// SPDX-License-Identifier: MIT
#include "core/codegen/attention/online/key_tile.h"

#include "core/ir/build.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {

using ir::Op;
using ir::UOp;

bool KeyTile::IsOverRow(UOp u) const {
  if (!u.Is({Op::REDUCE, Op::STAGE}) || !ir::IsFloat(u.dtype()) || u.closed().size() != 1)
    return false;
  const UOp r = u.closed()[0];
  if (r.axis_type() != ir::AxisType::REDUCE || r.src(0) != size_) return false;
  return u.Is(Op::REDUCE) ||
         (u.src(1) == r && u.src(2).IsConstInt(1) && ctx_.BoundsOf(size_).max == u.arg().AsInt());
}

bool KeyTile::IsElement(UOp u, UOp range) const {
  return u.Is(Op::LOAD) && u.src(0).src(0).Is(Op::STAGE) && IsOverRow(u.src(0).src(0)) &&
         u.src(0).n_src() == 2 && u.src(0).src(1) == range;
}

UOp KeyTile::Begin() const { return rules::IndexProduct(ctx_, loop_, ctx_.Idx(n_)); }

UOp KeyTile::InTile(UOp range) {
  UOp& out = in_tile_[range.id()];
  if (!out) out = Range(ctx_, ctx_.Idx(n_), range.axis_id(), range.axis_type());
  return out;
}

UOp KeyTile::InRow(UOp range) { return rules::IndexSum(ctx_, Begin(), InTile(range)); }

UOp KeyTile::MaybeValid(UOp range) {
  if (size_.Is(Op::CONST) && size_.const_int() % n_ == 0) return {};
  const UOp at = InRow(range);
  return Lt(ctx_, at, size_);
}

}  // namespace uopd::codegen
