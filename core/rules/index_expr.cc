// SPDX-License-Identifier: MIT
#include "core/rules/index_expr.h"

#include <algorithm>
#include <utility>

#include "core/ir/build.h"
#include "core/rules/terms.h"

namespace uopd::rules {

using ir::Op;
using ir::UOp;
using ir::UOpContext;

UOp IndexSum(UOpContext& ctx, UOp a, UOp b) {
  const auto sum = ToSum(ctx, a, b, 1);
  const UOp made = sum ? FromSum(ctx, *sum, a) : UOp();
  return made ? made : ir::Add(ctx, a, b);
}

UOp IndexProduct(UOpContext& ctx, UOp a, UOp b) {
  if (!b.Is(Op::CONST)) std::swap(a, b);
  if (!b.Is(Op::CONST)) return ir::Mul(ctx, a, b);
  const auto sum = ToSum(ctx, ctx.Idx(0), a, b.const_int());
  const UOp made = sum ? FromSum(ctx, *sum) : UOp();
  return made ? made : ir::Mul(ctx, a, b);
}

UOp WithIndexSources(UOpContext& ctx, UOp u, std::span<const UOp> src) {
  if (u.dtype() == ir::Dtype::Index && !std::equal(src.begin(), src.end(), u.srcs().begin())) {
    if (u.Is(Op::ADD)) return IndexSum(ctx, src[0], src[1]);
    if (u.Is(Op::MUL)) return IndexProduct(ctx, src[0], src[1]);
  }
  return ctx.WithSources(u, src);
}

}  // namespace uopd::rules
