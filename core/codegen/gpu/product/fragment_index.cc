// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/product/fragment_index.h"

#include "core/ir/build.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {

using ir::Op;
using ir::UOp;

UOp FragmentDigits(ir::UOpContext& ctx, std::span<const Fragment::Bit> bits, char axis,
                   UOp number) {
  UOp out = ctx.Idx(0);
  for (size_t i = 0; i < bits.size();) {
    size_t end = i + 1;
    if (bits[i].axis != axis) {
      i = end;
      continue;
    }
    // Runs of neighbouring bits are one digit.
    while (end < bits.size() && bits[end].axis == axis && bits[end].bit == bits[end - 1].bit + 1)
      ++end;
    UOp digit = number;
    if (i > 0) digit = ir::Alu(ctx, Op::FLOORDIV, {digit, ctx.Idx(int64_t{1} << i)});
    if (end < bits.size())
      digit = ir::Alu(ctx, Op::FLOORMOD, {digit, ctx.Idx(int64_t{1} << (end - i))});
    out = rules::IndexSum(ctx, out,
                          rules::IndexProduct(ctx, digit, ctx.Idx(int64_t{1} << bits[i].bit)));
    i = end;
  }
  return out;
}

UOp FragmentBits(ir::UOpContext& ctx, std::span<const Fragment::Bit> bits, char axis,
                 std::span<const UOp> values) {
  UOp out = ctx.Idx(0);
  for (size_t i = 0; i < bits.size(); ++i) {
    if (bits[i].axis != axis) continue;
    out = rules::IndexSum(ctx, out,
                          rules::IndexProduct(ctx, values[i], ctx.Idx(int64_t{1} << bits[i].bit)));
  }
  return out;
}

}  // namespace uopd::codegen
