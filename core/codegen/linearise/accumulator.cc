// SPDX-License-Identifier: MIT
#include "core/codegen/linearise/accumulator.h"

#include <algorithm>

#include "core/ir/analysis/eval.h"
#include "core/ir/build.h"

namespace uopd::codegen {

using ir::UOp;

UOp IdentityOf(ir::UOpContext& ctx, UOp u) {
  const ir::Scalar identity = ReduceIdentity(u.reduce_op(), u.dtype());
  return ir::IsFloat(u.dtype()) ? ctx.Float(u.dtype(), identity.f) : ctx.Int(u.dtype(), identity.i);
}

Accumulator MakeAccumulator(Lineariser& l, UOp u, UOp maybe_start, Scope& scope) {
  ir::UOpContext& ctx = l.ctx;
  const ir::Shape shape = *ctx.ShapeOf(u);
  Accumulator a;
  a.reduce = u;
  a.lanes = shape.empty() ? 0 : shape[0].const_int();
  a.buffer =
      ir::Buffer(ctx, l.next_register++, u.dtype(),
                 ir::ShapeArg(ctx, ir::Dims{std::max<int64_t>(a.lanes, 1)}), ir::AddrSpace::REG);
  UOp value = maybe_start ? maybe_start : IdentityOf(ctx, u);
  scope.Line(a.buffer);
  if (a.lanes > 0) {
    // Accumulators in other loops may start with the same vector: it stands outside of all loops.
    value =
        ctx.Make(ir::Op::STACK, u.dtype(), std::vector<UOp>(static_cast<size_t>(a.lanes), value));
    l.scopes.body().Line(value);
  }
  a.init = scope.Line(
      ir::Store(ctx, scope.Line(ir::Index(ctx, a.buffer, ctx.Idx(0), UOp(), a.lanes)), value));
  return a;
}

}  // namespace uopd::codegen
