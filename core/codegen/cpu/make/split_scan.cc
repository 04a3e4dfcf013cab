// SPDX-License-Identifier: MIT
#include "core/codegen/cpu/make/split_scan.h"

#include <vector>

#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/rebuild.h"
#include "core/codegen/passes/vectors/scans.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {

using ir::AxisType;
using ir::Dtype;
using ir::Op;
using ir::UOp;

namespace {

constexpr int64_t kMostTogether = 4;  // iterations whose terms are added before the sum changes

UOp WithoutPrefetches(ir::UOpContext& ctx, UOp x) {
  return Rebuild(ctx, x, [&](UOp u, std::span<const UOp> srcs) {
    return u.Is(Op::LOAD) ? ctx.Make(u.op(), u.dtype(), srcs, u.arg())
                          : rules::WithIndexSources(ctx, u, srcs);
  });
}

// The sum of the chunk, in the dtype of the accumulator. Sums of f32 add up a few neighbours in
// f32, and these in f64: half of the conversions, and the error does not grow with the chunk.
UOp TotalOf(ir::UOpContext& ctx, Op op, UOp x, std::span<const UOp> loops, int64_t& next_id) {
  ir::Substitution fresh;
  std::vector<UOp> over, together;
  for (UOp r : loops) {
    const bool is_loop = r.axis_type() != AxisType::VECTOR;
    int64_t n = 1;
    for (int64_t t = kMostTogether; is_loop && n == 1 && t > 1; t /= 2) {
      if (r.src(0).const_int() % t == 0) n = t;
    }
    const int64_t size = r.src(0).const_int() / n;
    UOp value = Range(ctx, ctx.Idx(size), next_id++, is_loop ? AxisType::REDUCE : AxisType::VECTOR);
    over.push_back(value);
    if (n > 1) {
      together.push_back(Range(ctx, ctx.Idx(n), next_id++, AxisType::UNROLL));
      value = rules::IndexSum(ctx, rules::IndexProduct(ctx, value, ctx.Idx(n)), together.back());
    }
    fresh[r.id()] = value;
  }
  x = WithoutPrefetches(ctx, ir::Substitute(ctx, x, fresh));
  if (!together.empty()) x = ReduceRanges(ctx, op, x, together);
  const Dtype wide = AccumulatorOf(op, x.dtype());
  return ReduceRanges(ctx, op, wide == x.dtype() ? x : Cast(ctx, x, wide), over);
}

}  // namespace

std::string MaybeNoSplitScan(const ir::UOpContext& ctx, UOp sink) {
  if (Axes(ctx, sink).size() != 1) return "the kernel has other axes than that of the running sums";
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (!u.Is(Op::SCAN)) continue;
    if (ir::IsSmallFloat(u.dtype())) return "sums of chunks of small floats would be rounded";
    if (ir::IsFloat(u.dtype()) && u.reduce_op() == Op::MUL)
      return "products of chunks may leave the range of floats";
    for (UOp n : ir::Toposort(ctx, u.srcs().first(1))) {
      if (n.Is(Op::SCAN)) return "the running sums are of other running sums";
    }
  }
  return "";
}

UOp SplitScan(ir::UOpContext& ctx, Op op, UOp x, std::span<const UOp> loops, UOp thread,
              int64_t& next_id) {
  const UOp total = loops.empty() ? Cast(ctx, x, AccumulatorOf(op, x.dtype()))
                                  : TotalOf(ctx, op, x, loops, next_id);
  const ir::Arg arg = ctx.Data({ir::Info(op).wire});
  std::vector<UOp> srcs = {x};
  srcs.insert(srcs.end(), loops.begin(), loops.end());
  srcs.push_back(ctx.Make(Op::SCAN, total.dtype(), {total, thread}, arg, kBefore));
  return ctx.Make(Op::SCAN, x.dtype(), srcs, arg);
}

}  // namespace uopd::codegen
