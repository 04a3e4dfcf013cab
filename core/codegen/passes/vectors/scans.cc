// SPDX-License-Identifier: MIT
#include "core/codegen/passes/vectors/scans.h"

#include <vector>

#include "core/codegen/passes/combine.h"
#include "core/ir/build.h"

namespace uopd::codegen {

using ir::Dtype;
using ir::Op;
using ir::UOp;

Dtype AccumulatorOf(Op op, Dtype d) { return d == Dtype::F32 && op != Op::MAX ? Dtype::F64 : d; }

namespace {

// `start` is of the dtype of the accumulator, or null.
UOp ScanOf(ir::UOpContext& ctx, Op op, UOp x, std::span<const UOp> loops, UOp start, int64_t tag) {
  const Dtype d = x.dtype(), wide = AccumulatorOf(op, d);
  std::vector<UOp> srcs = {wide == d ? x : Cast(ctx, x, wide)};
  srcs.insert(srcs.end(), loops.begin(), loops.end());
  if (start) srcs.push_back(start);
  UOp scan;
  if (!loops.empty()) {
    scan = ctx.Make(Op::SCAN, wide, srcs, ctx.Data({ir::Info(op).wire}), tag);
  } else {
    scan = tag == kBefore ? start : Combine(ctx, op, start, srcs[0]);
  }
  return wide == d ? scan : Cast(ctx, scan, d);
}

}  // namespace

UOp ScanOfLoops(ir::UOpContext& ctx, Op op, UOp x, std::span<const UOp> loops, UOp start) {
  return loops.empty() && !start ? x : ScanOf(ctx, op, x, loops, start, 0);
}

UOp ScanOfLanes(ir::UOpContext& ctx, Op op, UOp x, std::span<const UOp> loops, UOp start) {
  const int64_t n = (*ctx.ShapeOf(x))[0].const_int();
  const auto lane = [&](UOp v, int64_t k) {
    return v.Is(Op::STACK) ? v.src(static_cast<size_t>(k))
                           : ctx.Make(Op::GEP, v.dtype(), {v}, ir::Arg::Int(k));
  };
  // Each step joins neighbouring runs of `half` lanes: the last lane of the first run is added to
  // all lanes of the second one.
  for (int64_t half = 1; half < n; half *= 2) {
    std::vector<UOp> from, second;
    for (int64_t k = 0; k < n; ++k) {
      const bool adds = (k & half) != 0;
      from.push_back(lane(x, adds ? (k & ~(2 * half - 1)) + half - 1 : k));
      second.push_back(ctx.Bool(adds));
    }
    const UOp joined = Combine(ctx, op, ctx.Make(Op::STACK, x.dtype(), from), x);
    x = Where(ctx, ctx.Make(Op::STACK, Dtype::Bool, second), joined, x);
  }
  if (loops.empty() && !start) return x;
  return Combine(ctx, op, ScanOf(ctx, op, lane(x, n - 1), loops, start, kBefore), x);
}

}  // namespace uopd::codegen
