// SPDX-License-Identifier: MIT
#include "core/schedule/prepare/split_axis.h"

#include <algorithm>

#include "core/ir/build.h"
#include "core/schedule/prepare/axis_map.h"

namespace uopd::schedule {

using ir::Op;
using ir::SymbolicDims;
using ir::UOp;

UOp AxisSplitter::Split(UOp x, size_t axis) {
  const std::pair key{x.id(), axis};
  const auto found = done_.find(key);
  if (found != done_.end()) return found->second;
  return done_[key] = Made(x, axis);
}

// The shape of x with the axis as two.
SymbolicDims AxisSplitter::DimsOf(UOp x, size_t axis) {
  const ir::Shape& shape = *ctx_.ShapeOf(x);
  SymbolicDims dims(shape.begin(), shape.end());
  const bool one = dims[axis].IsConstInt(1);
  dims[axis] = ctx_.Idx(one ? 1 : outer_);
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, ctx_.Idx(one ? 1 : inner_));
  return dims;
}

// By RESHAPE, with zeros as padding.
UOp AxisSplitter::AtEnd(UOp x, size_t axis) {
  const SymbolicDims dims = DimsOf(x, axis);
  if (outer_ * inner_ != size_ && !dims[axis].IsConstInt(1)) {
    SymbolicDims padded(ctx_.ShapeOf(x)->begin(), ctx_.ShapeOf(x)->end());
    padded[axis] = ctx_.Idx(outer_ * inner_);
    const SymbolicDims zeros(padded.size(), ctx_.Idx(0));
    x = ir::Pad(ctx_, x, ir::ShapeArg(ctx_, zeros), ir::ShapeArg(ctx_, padded));
  }
  return ir::Reshape(ctx_, x, ir::ShapeArg(ctx_, dims));
}

// The position along the axis itself.
UOp AxisSplitter::Position(UOp x, size_t axis) {
  const UOp shape = ir::ShapeArg(ctx_, DimsOf(x, axis));
  const auto at = static_cast<int64_t>(axis);
  const UOp block =
      ir::Mul(ctx_, ir::Iota(ctx_, x.dtype(), shape, at), ctx_.Int(x.dtype(), inner_));
  return ir::Add(ctx_, block, ir::Iota(ctx_, x.dtype(), shape, at + 1));
}

// Source i of the elementwise op or EXPAND x. Shapes are aligned at their last axes.
UOp AxisSplitter::SourceOf(UOp x, size_t i, size_t axis) {
  const UOp s = x.src(i);
  const size_t missing = ctx_.ShapeOf(x)->size() - ctx_.ShapeOf(s)->size();
  return axis < missing ? s : Split(s, axis - missing);
}

UOp AxisSplitter::Made(UOp x, size_t axis) {
  const auto at = static_cast<int64_t>(axis);
  const size_t rank = ctx_.ShapeOf(x)->size();
  if ((*ctx_.ShapeOf(x))[axis].IsConstInt(1)) return AtEnd(x, axis);
  if (x.Is(ir::kElementwiseOps) || x.Is(Op::DETACH)) {
    SymbolicDims srcs;
    for (size_t i = 0; i < x.n_src(); ++i) srcs.push_back(SourceOf(x, i, axis));
    return ctx_.WithSources(x, srcs);
  }
  if (x.Is(Op::EXPAND))
    return ir::Expand(ctx_, SourceOf(x, 0, axis), ir::ShapeArg(ctx_, DimsOf(x, axis)));
  if (x.Is(Op::IOTA)) {
    const int64_t along = x.arg().AsInt();
    if (along == at) return Position(x, axis);
    return ir::Iota(ctx_, x.dtype(), ir::ShapeArg(ctx_, DimsOf(x, axis)),
                    along + (along > at ? 1 : 0));
  }
  if (x.Is(Op::REDUCE)) {
    ir::Dims axes;
    for (int64_t a : x.reduce_axes()) axes.push_back(a + (a > at ? 1 : 0));
    return ir::ReduceAxes(ctx_, x.reduce_op(), Split(x.src(0), axis), axes);
  }
  if (x.Is(Op::PERMUTE)) {
    ir::Dims order;
    for (int64_t from : x.ints()) {
      order.push_back(from + (from > x.ints()[axis] ? 1 : 0));
      if (from == x.ints()[axis]) order.push_back(from + 1);
    }
    return ir::Permute(ctx_, Split(x.src(0), static_cast<size_t>(x.ints()[axis])), order);
  }
  if (x.Is(Op::RESHAPE)) {
    AxisMap map(rank, -1);
    map[axis] = static_cast<int>(axis);
    const AxisMap below = MapBelow(ctx_, x, map);
    const auto source = std::ranges::find(below, static_cast<int>(axis));
    if (source != below.end()) {
      const UOp s = Split(x.src(0), static_cast<size_t>(source - below.begin()));
      return ir::Reshape(ctx_, s, ir::ShapeArg(ctx_, DimsOf(x, axis)));
    }
  }
  return AtEnd(x, axis);
}

}  // namespace uopd::schedule
