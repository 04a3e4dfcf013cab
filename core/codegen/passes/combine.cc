// SPDX-License-Identifier: MIT
#include "core/codegen/passes/combine.h"

#include <cmath>

namespace uopd::codegen {

using ir::Dtype;
using ir::Op;
using ir::UOp;

namespace {

// A constant of floats that is not NaN.
bool IsNumber(UOp u) {
  return u.Is(Op::CONST) && ir::IsFloat(u.dtype()) && !std::isnan(u.const_float());
}

}  // namespace

UOp Maximum(ir::UOpContext& ctx, UOp a, UOp b) {
  if (a.dtype() == Dtype::Bool) return ir::Alu(ctx, Op::OR, {a, b});
  if (const UOp constant = a.Is(Op::CONST) ? a : b; IsNumber(constant)) {
    // With a constant no select is needed for NaN: one instruction on x86. Of two zeros +0 is the
    // larger one: adding +0 gives -0 that sign.
    const UOp x = a.Is(Op::CONST) ? b : a;
    const UOp larger = Where(ctx, Lt(ctx, x, constant), constant, x);
    const bool zero = constant.const_float() == 0 && !std::signbit(constant.const_float());
    return zero ? Add(ctx, larger, constant) : larger;
  }
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
