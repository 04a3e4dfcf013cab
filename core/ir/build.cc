// SPDX-License-Identifier: MIT
#include "core/ir/build.h"

namespace uopd::ir {

UOp Alu(UOpContext& ctx, Op op, std::initializer_list<UOp> src) {
  const UOp* s = src.begin();
  const Dtype dtype = kComparisonOps.Has(op) ? Dtype::Bool
                      : op == Op::WHERE      ? s[1].dtype()
                                             : s[0].dtype();
  return ctx.Make(op, dtype, src);
}

UOp Cast(UOpContext& ctx, UOp x, Dtype dtype) {
  return x.dtype() == dtype ? x : ctx.Make(Op::CAST, dtype, {x});
}
UOp Bitcast(UOpContext& ctx, UOp x, Dtype dtype) {
  return x.dtype() == dtype ? x : ctx.Make(Op::BITCAST, dtype, {x});
}

UOp Reshape(UOpContext& ctx, UOp x, UOp shape) {
  return ctx.Make(Op::RESHAPE, x.dtype(), {x, shape});
}
UOp Reshape(UOpContext& ctx, UOp x, std::span<const int64_t> dims) {
  return Reshape(ctx, x, ShapeArg(ctx, dims));
}
UOp Expand(UOpContext& ctx, UOp x, UOp shape) {
  return ctx.Make(Op::EXPAND, x.dtype(), {x, shape});
}
UOp Expand(UOpContext& ctx, UOp x, std::span<const int64_t> dims) {
  return Expand(ctx, x, ShapeArg(ctx, dims));
}
UOp Permute(UOpContext& ctx, UOp x, std::span<const int64_t> order) {
  return ctx.Make(Op::PERMUTE, x.dtype(), {x}, ctx.Data(order));
}
UOp Pad(UOpContext& ctx, UOp x, UOp before, UOp shape) {
  return ctx.Make(Op::PAD, x.dtype(), {x, before, shape});
}
UOp Shrink(UOpContext& ctx, UOp x, UOp starts, UOp shape) {
  return ctx.Make(Op::SHRINK, x.dtype(), {x, starts, shape});
}
UOp Flip(UOpContext& ctx, UOp x, std::span<const int64_t> axes) {
  return ctx.Make(Op::FLIP, x.dtype(), {x}, ctx.Data(axes));
}

UOp ReduceAxes(UOpContext& ctx, Op op, UOp x, std::span<const int64_t> axes) {
  Dims arg = {Info(op).wire};
  arg.insert(arg.end(), axes.begin(), axes.end());
  return ctx.Make(Op::REDUCE, x.dtype(), {x}, ctx.Data(arg));
}
UOp ReduceRanges(UOpContext& ctx, Op op, UOp x, std::span<const UOp> ranges) {
  SymbolicDims src = {x};
  src.insert(src.end(), ranges.begin(), ranges.end());
  return ctx.Make(Op::REDUCE, x.dtype(), src, ctx.Data({Info(op).wire}));
}

UOp Param(UOpContext& ctx, int64_t slot, Dtype dtype, UOp shape, std::string_view device) {
  return ctx.Make(Op::PARAM, dtype, {shape},
                  ctx.Data({slot, static_cast<int64_t>(AddrSpace::GLOBAL)}, device));
}
UOp Buffer(UOpContext& ctx, int64_t slot, Dtype dtype, UOp shape, AddrSpace space,
           std::string_view device) {
  return ctx.Make(Op::BUFFER, dtype, {shape},
                  ctx.Data({slot, static_cast<int64_t>(space)}, device));
}
UOp Variable(UOpContext& ctx, std::string_view name, int64_t min, int64_t max) {
  return ctx.Make(Op::DEFINE_VAR, Dtype::Index, std::span<const UOp>{}, ctx.Data({min, max}, name));
}
UOp Iota(UOpContext& ctx, Dtype dtype, UOp shape, int64_t axis) {
  return ctx.Make(Op::IOTA, dtype, {shape}, Arg::Int(axis));
}
UOp Range(UOpContext& ctx, UOp size, int64_t axis_id, AxisType type) {
  return ctx.Make(Op::RANGE, size.dtype(), {size}, ctx.Data({axis_id, static_cast<int64_t>(type)}));
}
UOp Index(UOpContext& ctx, UOp buffer, UOp index, UOp maybe_gate, int64_t lanes) {
  if (!maybe_gate || maybe_gate.IsConstInt(1))
    return ctx.Make(Op::INDEX, buffer.dtype(), {buffer, index}, Arg::Int(lanes));
  return ctx.Make(Op::INDEX, buffer.dtype(), {buffer, index, maybe_gate}, Arg::Int(lanes));
}
UOp Load(UOpContext& ctx, UOp index) { return ctx.Make(Op::LOAD, index.dtype(), {index}); }
UOp Store(UOpContext& ctx, UOp target, UOp value) {
  return ctx.Make(Op::STORE, Dtype::Void, {target, value});
}
UOp After(UOpContext& ctx, UOp x, std::span<const UOp> deps) {
  if (deps.empty()) return x;
  SymbolicDims src = {x};
  src.insert(src.end(), deps.begin(), deps.end());
  return ctx.Make(Op::AFTER, x.dtype(), src);
}
UOp After(UOpContext& ctx, UOp x, std::initializer_list<UOp> deps) {
  return After(ctx, x, std::span<const UOp>(deps.begin(), deps.size()));
}
UOp End(UOpContext& ctx, UOp statement, std::span<const UOp> ranges) {
  if (ranges.empty()) return statement;
  SymbolicDims src = {statement};
  src.insert(src.end(), ranges.begin(), ranges.end());
  return ctx.Make(Op::END, Dtype::Void, src);
}
UOp Sink(UOpContext& ctx, std::span<const UOp> roots) {
  return ctx.Make(Op::SINK, Dtype::Void, roots);
}
UOp KernelSink(UOpContext& ctx, std::span<const UOp> roots, std::string_view name) {
  return ctx.Make(Op::SINK, Dtype::Void, roots, ctx.Data({1}, name));
}

}  // namespace uopd::ir
