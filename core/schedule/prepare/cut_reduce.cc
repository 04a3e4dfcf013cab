// SPDX-License-Identifier: MIT
#include "core/schedule/prepare/cut_reduce.h"

#include "core/ir/analysis/eval.h"
#include "core/ir/build.h"
#include "core/ir/shape.h"

namespace uopd::schedule {
using ir::Dims;
using ir::Op;
using ir::UOp;
using ir::UOpContext;

UOp PadForReduce(UOpContext& ctx, Op op, UOp x, size_t axis, int64_t size) {
  Dims dims = *ir::StaticDims(*ctx.ShapeOf(x));
  const int64_t before = dims[axis];
  if (before == size) return x;
  dims[axis] = size;
  const UOp shape = ir::ShapeArg(ctx, dims);
  const UOp padded = ir::Pad(ctx, x, ir::ShapeArg(ctx, Dims(dims.size(), 0)), shape);
  if (op == Op::ADD) return padded;
  const ir::Scalar identity = ir::ReduceIdentity(op, x.dtype());
  const UOp neutral = ir::IsFloat(x.dtype()) ? ctx.Float(x.dtype(), identity.f)
                                             : ctx.Int(x.dtype(), identity.wide());
  const UOp place = ir::Iota(ctx, ir::Dtype::I64, shape, static_cast<int64_t>(axis));
  return ir::Where(ctx, ir::Lt(ctx, place, ctx.Int(ir::Dtype::I64, before)), padded, neutral);
}

UOp CutReduce(UOpContext& ctx, UOp u, const Cut& cut, bool keeps_result) {
  const Op op = u.reduce_op();
  UOp x = u.src(0);
  const bool small = ir::IsSmallFloat(x.dtype());
  if (small && op != Op::MAX) x = ir::Cast(ctx, x, ir::Dtype::F32);
  Dims split = *ir::StaticDims(*ctx.ShapeOf(x));
  x = PadForReduce(ctx, op, x, cut.axis, cut.chunks * cut.size);
  const auto at = static_cast<std::ptrdiff_t>(cut.axis);
  split[cut.axis] = cut.size;
  split.insert(split.begin() + at, cut.chunks);
  Dims inner;
  for (int64_t a : u.reduce_axes()) inner.push_back(a + (a >= at ? 1 : 0));
  const UOp partial = ir::ReduceAxes(ctx, op, ir::Reshape(ctx, x, split), inner);
  const UOp kept = ctx.Make(Op::CONTIGUOUS, partial.dtype(), {partial});
  const int64_t outer = at;
  UOp out = ir::ReduceAxes(ctx, op, kept, std::span(&outer, 1));
  out = ir::Cast(ctx, ir::Reshape(ctx, out, ir::ShapeArg(ctx, *ctx.ShapeOf(u))), u.dtype());
  return keeps_result ? ctx.Make(Op::CONTIGUOUS, out.dtype(), {out}) : out;
}

}  // namespace uopd::schedule
