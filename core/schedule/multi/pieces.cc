// SPDX-License-Identifier: MIT
#include "core/schedule/multi/pieces.h"

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

namespace {

using ir::UOp;
using ir::UOpContext;

// Chunks of at least kLongChunk elements begin at a multiple of kAligned elements.
constexpr int64_t kAligned = 32;
constexpr int64_t kLongChunk = 1024;

std::vector<UOp> Naive(UOpContext& ctx, ir::Op op, const Pieces& partials) {
  const auto& devices = partials.layout.devices;
  std::vector<UOp> out;
  for (std::string_view device : devices) {
    UOp sum;
    for (size_t i = 0; i < devices.size(); ++i) {
      const UOp part = OnDevice(ctx, partials.nodes[i], devices[i], device);
      sum = sum ? ir::Alu(ctx, op, {sum, part}) : part;
    }
    out.push_back(sum);
  }
  return out;
}

std::vector<UOp> Ring(UOpContext& ctx, ir::Op op, const Pieces& partials, int64_t elements) {
  const auto& devices = partials.layout.devices;
  const size_t n = devices.size();
  const auto count = static_cast<int64_t>(n);
  std::vector<UOp> flat;
  for (UOp p : partials.nodes) flat.push_back(ir::Reshape(ctx, p, ir::Dims{elements}));
  const int64_t unit = elements / count >= kLongChunk ? kAligned : 1;
  auto begin = [&](int64_t chunk) {
    return chunk == count ? elements : elements / unit * chunk / count * unit;
  };
  // By device and number of the chunk: the node of the finished chunk on that device.
  std::vector<std::vector<UOp>> chunks(n, std::vector<UOp>(n));
  for (size_t c = 0; c < n; ++c) {
    const auto number = static_cast<int64_t>(c);
    auto own = [&](size_t device) {
      return Slice(ctx, flat[device], 0, begin(number), begin(number + 1) - begin(number));
    };
    UOp sum = own(c);
    size_t at = c;
    for (size_t step = 1; step < n; ++step) {
      const size_t next = (at + 1) % n;
      sum = ir::Alu(ctx, op, {OnDevice(ctx, sum, devices[at], devices[next]), own(next)});
      at = next;
    }
    chunks[at][c] = sum;
    for (size_t step = 1; step < n; ++step) {
      const size_t next = (at + 1) % n;
      chunks[next][c] = sum = OnDevice(ctx, sum, devices[at], devices[next]);
      at = next;
    }
  }
  std::vector<UOp> out;
  const UOp shape = ir::ShapeArg(ctx, *ctx.ShapeOf(partials.nodes[0]));
  for (size_t i = 0; i < n; ++i) out.push_back(ir::Reshape(ctx, Joined(ctx, chunks[i], 0), shape));
  return out;
}

}  // namespace

Pieces AllReduce(UOpContext& ctx, ir::Op op, const Pieces& partials, int64_t ring_threshold) {
  const auto dims = ir::StaticDims(*ctx.ShapeOf(partials.nodes[0]));
  const int64_t elements = dims ? ir::Product(*dims) : 0;
  const auto n = static_cast<int64_t>(partials.nodes.size());
  const bool ring = n > 2 && elements >= n && elements > ring_threshold;
  return {ir::Replicated(partials.layout.devices),
          ring ? Ring(ctx, op, partials, elements) : Naive(ctx, op, partials)};
}

}  // namespace uopd::schedule
