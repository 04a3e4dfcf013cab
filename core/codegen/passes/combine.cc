// SPDX-License-Identifier: MIT
#include "core/codegen/passes/combine.h"

namespace uopd::codegen {

using ir::Dtype;
using ir::Op;
using ir::UOp;

UOp Maximum(ir::UOpContext& ctx, UOp a, UOp b) {
  if (a.dtype() == Dtype::Bool) return ir::Alu(ctx, Op::OR, {a, b});
  // If b is NaN, b < a is false and selects b. If a is NaN, the second select returns a.
  const UOp larger = Where(ctx, Lt(ctx, b, a), a, b);
  if (!ir::IsFloat(a.dtype())) return larger;
  return Where(ctx, ir::Alu(ctx, Op::CMPNE, {a, a}), a, larger);
}

UOp Combine(ir::UOpContext& ctx, Op op, UOp a, UOp b) {
  if (op == Op::MAX) return Maximum(ctx, a, b);
  if (a.dtype() == Dtype::Bool) return ir::Alu(ctx, op == Op::ADD ? Op::OR : Op::AND, {a, b});
  return ir::Alu(ctx, op, {a, b});
}

}  // namespace uopd::codegen
