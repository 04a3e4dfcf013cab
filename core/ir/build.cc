// SPDX-License-Identifier: MIT
#include "core/ir/build.h"

#include <algorithm>

#include "core/base/status.h"
#include "core/base/text.h"
#include "core/ir/analysis/polynomial.h"

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

UOp Floor(UOpContext& ctx, UOp x) {
  const UOp t = Alu(ctx, Op::TRUNC, {x});
  return Where(ctx, Lt(ctx, x, t), Sub(ctx, t, ctx.Float(x.dtype(), 1)), t);
}
UOp TruncDiv(UOpContext& ctx, UOp a, UOp b) {
  if (!IsFloat(a.dtype())) return Alu(ctx, Op::CDIV, {a, b});
  return Alu(ctx, Op::TRUNC, {Alu(ctx, Op::FDIV, {a, b})});
}
UOp TruncMod(UOpContext& ctx, UOp a, UOp b) {
  if (!IsFloat(a.dtype())) return Alu(ctx, Op::CMOD, {a, b});
  return Sub(ctx, a, Mul(ctx, b, TruncDiv(ctx, a, b)));
}
UOp FloorDiv(UOpContext& ctx, UOp a, UOp b) {
  if (!IsFloat(a.dtype())) return Alu(ctx, Op::FLOORDIV, {a, b});
  return Floor(ctx, Alu(ctx, Op::FDIV, {a, b}));
}
UOp FloorMod(UOpContext& ctx, UOp a, UOp b) {
  if (!IsFloat(a.dtype())) return Alu(ctx, Op::FLOORMOD, {a, b});
  return Sub(ctx, a, Mul(ctx, b, FloorDiv(ctx, a, b)));
}

namespace {
Dtype UnsignedOf(int bits) {
  return bits == 8 ? Dtype::U8 : bits == 16 ? Dtype::U16 : bits == 32 ? Dtype::U32 : Dtype::U64;
}
}  // namespace

absl::StatusOr<UOp> BitcastWidth(UOpContext& ctx, UOp x, Dtype dtype) {
  auto bad = [&](std::string_view why) {
    return absl::InvalidArgumentError(
        Cat("BITCAST from ", Name(x.dtype()), " to ", Name(dtype), ": ", why));
  };
  for (Dtype d : {x.dtype(), dtype}) {
    if (d == Dtype::Void || d == Dtype::Index || d == Dtype::Bool) return bad("it has no bits");
  }
  const int from = Bits(x.dtype()), to = Bits(dtype);
  if (from == to) return Bitcast(ctx, x, dtype);
  UOPD_ASSIGN(const Shape* shape, ctx.TryShapeOf(x));
  if (shape == nullptr || shape->empty()) return bad("there is no last axis to change");
  const UOp last = shape->back();
  const UOp bits = Bitcast(ctx, x, UnsignedOf(from));
  const Dtype wide = UnsignedOf(std::max(from, to));
  const int64_t ratio = std::max(from, to) / std::min(from, to);
  // 0, B, 2B, ... for each part of a wide element, B bits wide.
  const UOp iota = Iota(ctx, wide, ShapeArg(ctx, std::span(&ratio, 1)), 0);
  const UOp shift = Mul(ctx, iota, ctx.Int(wide, std::min(from, to)));
  SymbolicDims dims(shape->begin(), shape->end() - 1);
  auto with = [&](std::initializer_list<UOp> ends) {
    SymbolicDims out = dims;
    out.insert(out.end(), ends.begin(), ends.end());
    return ShapeArg(ctx, Shape(out));
  };
  if (from > to) {
    const UOp parts = Alu(ctx, Op::SHR, {Reshape(ctx, bits, with({last, ctx.Idx(1)})), shift});
    const UOp narrow = Cast(ctx, parts, UnsignedOf(to));
    const UOp more =
        last.Is(Op::CONST) ? ctx.Idx(last.const_int() * ratio) : Mul(ctx, last, ctx.Idx(ratio));
    return Bitcast(ctx, Reshape(ctx, narrow, with({more})), dtype);
  }
  const UOp fewer = MaybeDivided(ctx, last, ratio);
  if (!fewer) {
    return bad(last.Is(Op::CONST)
                   ? Cat("the last axis (", last.const_int(), ") is no multiple of ", ratio)
                   : Cat("the last axis is symbolic, and no multiple of ", ratio, " by its form"));
  }
  const UOp parts = Cast(ctx, Reshape(ctx, bits, with({fewer, ctx.Idx(ratio)})), wide);
  const auto axis = static_cast<int64_t>(dims.size() + 1);
  const UOp joined =
      ReduceAxes(ctx, Op::ADD, Alu(ctx, Op::SHL, {parts, shift}), std::span(&axis, 1));
  return Bitcast(ctx, Reshape(ctx, joined, with({fewer})), dtype);
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

UOp MovedBack(UOpContext& ctx, UOp x, UOp move, UOp shape) {
  switch (move.op()) {
    case Op::PERMUTE: {
      Dims inverse(move.ints().size());
      for (size_t i = 0; i < inverse.size(); ++i)
        inverse[static_cast<size_t>(move.ints()[i])] = static_cast<int64_t>(i);
      return Permute(ctx, x, inverse);
    }
    case Op::FLIP:
      return Flip(ctx, x, move.ints());
    case Op::RESHAPE:
      return Reshape(ctx, x, shape);
    case Op::PAD:
      return Shrink(ctx, x, move.src(1), shape);
    default:
      UOPD_CHECK(move.Is(Op::SHRINK));
      return Pad(ctx, x, move.src(1), shape);
  }
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

UOp Scan(UOpContext& ctx, Op op, UOp x, int64_t axis) {
  return ctx.Make(Op::SCAN, x.dtype(), {x}, ctx.Data({Info(op).wire, axis}));
}
UOp ScanRanges(UOpContext& ctx, Op op, UOp x, std::span<const UOp> ranges) {
  SymbolicDims src = {x};
  src.insert(src.end(), ranges.begin(), ranges.end());
  return ctx.Make(Op::SCAN, x.dtype(), src, ctx.Data({Info(op).wire}));
}

UOp Staged(UOpContext& ctx, UOp value, int64_t size, UOp index, UOp maybe_gate,
           std::span<const UOp> ranges) {
  SymbolicDims src = {value, index, maybe_gate ? maybe_gate : ctx.Bool(true)};
  src.insert(src.end(), ranges.begin(), ranges.end());
  return ctx.Make(Op::STAGE, value.dtype(), src, Arg::Int(size));
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
UOp FloatVariable(UOpContext& ctx, std::string_view name, Dtype dtype) {
  return ctx.Make(Op::DEFINE_VAR, dtype, std::span<const UOp>{},
                  ctx.Data(std::span<const int64_t>(), name));
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
