// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/passes/group_reduce.h"

#include <array>
#include <bit>

#include "core/codegen/passes/combine.h"
#include "core/codegen/passes/stages.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;

constexpr int kBitsAtOnce = 4;  // of partial results that one thread reads in one step

int64_t Bits(int64_t mask) { return std::popcount(static_cast<uint64_t>(mask)); }

// The lowest n bits that are set.
int64_t LowestOf(int64_t mask, int64_t n) {
  int64_t out = 0;
  for (; n > 0; --n, mask &= mask - 1) out |= mask & -mask;
  return out;
}

// The thread's result over the threads of the group, by shared memory.
UOp Exchange(ir::UOpContext& ctx, Op op, UOp partial, const Group& group,
             const ThreadDigits& digits, int64_t& next_id) {
  const int64_t combined = group.mask, kept = group.open_mask;
  const int64_t n = int64_t{1} << Bits(combined), copies = int64_t{1} << Bits(kept);
  const auto place = [&](UOp at) {
    return rules::IndexSum(ctx, rules::IndexProduct(ctx, digits.Gathered(kept), ctx.Idx(n)), at);
  };
  const int64_t idle = (digits.threads() - 1) & ~(combined | kept);
  const UOp stage = ir::Staged(ctx, partial, n * copies, place(digits.Gathered(combined)),
                               digits.MaybeAllZero(idle), {});
  const UOp array = ctx.Make(Op::STAGE, stage.dtype(), stage.srcs(), stage.arg(), kSharedStage);
  const UOp other = Range(ctx, ctx.Idx(n), next_id++, AxisType::UNROLL);
  return ir::ReduceRanges(ctx, op, ir::Load(ctx, ir::Index(ctx, array, place(other))),
                          std::array<UOp, 1>{other});
}

}  // namespace

UOp GroupReduce(ir::UOpContext& ctx, Op op, UOp partial, const Group& group,
                const ThreadDigits& digits, int64_t& next_id) {
  UOp value = partial;
  int64_t left = group.mask;
  for (int64_t bit = 1; bit < group.lanes; bit *= 2) {
    if ((left & bit) == 0) continue;
    left &= ~bit;
    value =
        Combine(ctx, op, value, ctx.Make(Op::SHUFFLE, value.dtype(), {value}, ir::Arg::Int(bit)));
  }
  while (left != 0) {
    // All steps of about the same length; the highest bits first.
    const int64_t bits = Bits(left), steps = (bits + kBitsAtOnce - 1) / kBitsAtOnce;
    const int64_t now = left & ~LowestOf(left, bits - (bits + steps - 1) / steps);
    left &= ~now;
    value = Exchange(ctx, op, value, {now, group.open_mask | left}, digits, next_id);
  }
  return value;
}

}  // namespace uopd::codegen
