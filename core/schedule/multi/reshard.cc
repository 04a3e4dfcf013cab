// SPDX-License-Identifier: MIT
#include "core/schedule/multi/reshard.h"

#include <algorithm>

#include "core/ir/build.h"

namespace uopd::schedule {
namespace {

using ir::Layout;
using ir::Op;
using ir::UOp;
using ir::UOpContext;

int64_t DimOf(UOpContext& ctx, UOp x, int64_t axis) {
  return (*ctx.ShapeOf(x))[static_cast<size_t>(axis)].const_int();
}

// One piece of layout `to` on `device`: elements [begin, begin + length) along to.axis, or the
// whole value if `to` is not sharded.
UOp Gathered(UOpContext& ctx, const Pieces& value, const Layout& to, int64_t begin, int64_t length,
             std::string_view device) {
  const Layout& from = value.layout;
  auto part = [&](UOp x) { return to.sharded() ? Slice(ctx, x, to.axis, begin, length) : x; };
  if (from.anywhere()) return part(value.nodes[0]);
  if (!from.sharded()) {
    const auto here = std::find(from.devices.begin(), from.devices.end(), device);
    const auto i = here == from.devices.end() ? 0 : here - from.devices.begin();
    return OnDevice(ctx, part(value.nodes[static_cast<size_t>(i)]),
                    from.devices[static_cast<size_t>(i)], device);
  }
  std::vector<UOp> parts;
  const bool same_axis = to.axis == from.axis;
  int64_t whole = 0;
  for (int64_t size : from.sizes) whole += size;
  for (const ir::Overlap& o :
       same_axis ? Overlaps(from, begin, length) : Overlaps(from, 0, whole)) {
    UOp x = Slice(ctx, value.nodes[o.piece], from.axis, o.begin, o.length);
    if (!same_axis) x = part(x);
    parts.push_back(OnDevice(ctx, x, from.devices[o.piece], device));
  }
  return Joined(ctx, parts, from.axis);
}

}  // namespace

UOp OnDevice(UOpContext& ctx, UOp x, std::string_view from, std::string_view to) {
  if (from == to || from.empty()) return x;
  return ctx.Make(Op::COPY, x.dtype(), {x}, ctx.Data({}, to));
}

UOp Slice(UOpContext& ctx, UOp x, int64_t axis, int64_t begin, int64_t length) {
  const ir::Shape shape = *ctx.ShapeOf(x);
  if (shape[static_cast<size_t>(axis)].IsConstInt(length)) return x;
  ir::SymbolicDims starts(shape.size(), ctx.Idx(0)), box(shape.begin(), shape.end());
  starts[static_cast<size_t>(axis)] = ctx.Idx(begin);
  box[static_cast<size_t>(axis)] = ctx.Idx(length);
  return ir::Shrink(ctx, x, ir::ShapeArg(ctx, starts), ir::ShapeArg(ctx, box));
}

UOp Joined(UOpContext& ctx, std::span<const UOp> parts, int64_t axis) {
  if (parts.size() == 1) return parts[0];
  const auto a = static_cast<size_t>(axis);
  int64_t whole = 0;
  for (UOp p : parts) whole += DimOf(ctx, p, axis);
  const ir::Shape one = *ctx.ShapeOf(parts[0]);
  ir::SymbolicDims shape(one.begin(), one.end()), column(one.size(), ctx.Idx(1));
  shape[a] = column[a] = ctx.Idx(whole);
  // Pad the parts and choose between them by position. Adding them would turn -0 into 0.
  const UOp place = ir::Iota(ctx, ir::Dtype::I64, ir::ShapeArg(ctx, column), axis);
  UOp out;
  int64_t at = 0;
  for (UOp p : parts) {
    ir::SymbolicDims before(one.size(), ctx.Idx(0));
    before[a] = ctx.Idx(at);
    const UOp padded = ir::Pad(ctx, p, ir::ShapeArg(ctx, before), ir::ShapeArg(ctx, shape));
    out = !out ? padded
               : ir::Where(ctx, ir::Lt(ctx, place, ctx.Int(ir::Dtype::I64, at)), out, padded);
    at += DimOf(ctx, p, axis);
  }
  return out;
}

Pieces Reshard(UOpContext& ctx, const Pieces& value, const Layout& to) {
  const Layout& from = value.layout;
  const bool there = from.devices == to.devices && from.axis == to.axis && from.sizes == to.sizes;
  Pieces out{to, value.nodes};
  if (there || to.anywhere()) return out;
  out.nodes.clear();
  int64_t begin = 0;
  for (size_t i = 0; i < to.devices.size(); ++i) {
    const int64_t length = to.sharded() ? to.sizes[i] : 0;
    out.nodes.push_back(Gathered(ctx, value, to, begin, length, to.devices[i]));
    begin += length;
  }
  return out;
}

}  // namespace uopd::schedule
