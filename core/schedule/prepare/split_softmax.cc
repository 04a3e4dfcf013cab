// SPDX-License-Identifier: MIT
#include "core/schedule/prepare/split_softmax.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <utility>

#include "core/ir/build.h"
#include "core/ir/context.h"
#include "core/ir/shape.h"
#include "core/schedule/prepare/axis_map.h"
#include "core/schedule/prepare/rebuild.h"
#include "core/schedule/prepare/softmax_product.h"

namespace uopd::schedule {
namespace {

using ir::Dtype;
using ir::Op;
using ir::OpSet;
using ir::SymbolicDims;
using ir::UOp;
using ir::UOpContext;

// Computes values with one axis of `size` elements as two: (outer, inner). The last elements of the
// two are padding where outer * inner > size; their values are unspecified. A RESHAPE at the end
// would have the same elements, but the loops over what it is computed from would be over the one
// axis: what is computed for one element of `outer` could not be kept in an array of its own
// (fusion/staging.h). So the RESHAPE goes down to what the value is computed from: through
// elementwise ops, reductions of other axes and views that keep the axis whole.
class AxisSplitter {
 public:
  AxisSplitter(ir::UOpContext& ctx, int64_t size, int64_t outer, int64_t inner)
      : ctx_(ctx), size_(size), outer_(outer), inner_(inner) {}

  // x with axis `axis`, whose size is `size`, as two.
  ir::UOp Split(ir::UOp x, size_t axis);

 private:
  ir::UOp Made(ir::UOp x, size_t axis);
  ir::UOp AtEnd(ir::UOp x, size_t axis);
  ir::UOp Position(ir::UOp x, size_t axis);
  ir::UOp SourceOf(ir::UOp x, size_t i, size_t axis);
  ir::SymbolicDims DimsOf(ir::UOp x, size_t axis);

  ir::UOpContext& ctx_;
  const int64_t size_, outer_, inner_;
  std::map<std::pair<uint32_t, size_t>, ir::UOp> done_;  // by id and axis
};

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

// A row of scores of one block is this part of the longest row that can be staged: codegen computes
// several rows at once.
constexpr int64_t kPart = 16;
constexpr int64_t kLeastBlock =
    4;  // keys; with fewer, the blocks' results are as many as the scores

// With fewer scores for each key, such as those of one query, scores take little memory beside keys
// and values, and storing them is cheaper: the kernels that do nothing else read keys and values
// faster.
constexpr double kLeastScores = 8;

class SoftmaxSplitter {
 public:
  SoftmaxSplitter(UOpContext& ctx, const std::vector<UOp>& order, const Options& options)
      : ctx_(ctx),
        options_(options),
        longest_(std::min(options.stage_bytes, options.limits.stage_bytes) / 4),
        products_(ctx, order) {}

  // The REDUCE `made` divided into blocks, or `made`. `old`: the same node of the graph before.
  UOp Rewrite(UOp made, UOp old) {
    const auto p = products_.MaybeOf(made, old);
    if (!p || p->softmax.keys != p->softmax.least_keys || p->softmax.keys <= longest_ ||
        longest_ < kPart * kLeastBlock)
      return made;
    const UOp values = UnderOps(ir::kMovementOps | OpSet{Op::CAST}, p->mul.src(1 - p->side));
    if (Elements(p->mul) < kLeastScores * Elements(values)) return made;
    if (products_.IsOnline(*p, options_.LimitsFor(made))) return made;
    return Divided(made, *p);
  }

 private:
  // A power of two, if possible one that divides the keys.
  int64_t BlockOf(int64_t keys) const {
    const auto block =
        static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(longest_ / kPart)));
    for (int64_t b : {block, block / 2, block * 2}) {
      if (b > 0 && keys % b == 0) return b;
    }
    return block;
  }

  double Elements(UOp x) {
    double n = 1;
    for (int64_t d : ir::MaxDims(ctx_, *ctx_.ShapeOf(x))) n *= static_cast<double>(d);
    return n;
  }
  SymbolicDims DimsOf(UOp x) {
    const ir::Shape& shape = *ctx_.ShapeOf(x);
    return {shape.begin(), shape.end()};
  }
  UOp Zeros(size_t n) { return ir::ShapeArg(ctx_, SymbolicDims(n, ctx_.Idx(0))); }
  // x with another size of one axis: the first elements, or zeros behind them.
  UOp Resized(UOp x, size_t axis, int64_t size) {
    SymbolicDims dims = DimsOf(x);
    const int64_t before = dims[axis].const_int();
    if (before == size) return x;
    dims[axis] = ctx_.Idx(size);
    const UOp shape = ir::ShapeArg(ctx_, dims), zeros = Zeros(dims.size());
    return before < size ? ir::Pad(ctx_, x, zeros, shape) : ir::Shrink(ctx_, x, zeros, shape);
  }
  // Axis (keys) of x as two: (blocks, block). And back.
  UOp Split(UOp x, size_t axis) {
    x = Resized(x, axis, blocks_ * block_);
    SymbolicDims dims = DimsOf(x);
    dims[axis] = ctx_.Idx(blocks_);
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, ctx_.Idx(block_));
    return ir::Reshape(ctx_, x, ir::ShapeArg(ctx_, dims));
  }
  UOp Merged(UOp x, size_t axis, int64_t keys) {
    SymbolicDims dims = DimsOf(x);
    dims[axis] = ctx_.Idx(blocks_ * block_);
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
    return Resized(ir::Reshape(ctx_, x, ir::ShapeArg(ctx_, dims)), axis, keys);
  }
  UOp Reduced(Op op, UOp x, size_t axis) {
    const auto a = static_cast<int64_t>(axis);
    return ir::ReduceAxes(ctx_, op, x, std::span(&a, 1));
  }
  // In memory, the blocks (axis `axis`) outermost: so the order of the other axes, whatever it is,
  // stays.
  UOp Written(UOp x, size_t axis) {
    ir::Dims to = {static_cast<int64_t>(axis)}, back;
    for (int64_t a = 0; a < static_cast<int64_t>(ctx_.ShapeOf(x)->size()); ++a) {
      back.push_back(a < to[0] ? a + 1 : a == to[0] ? 0 : a);
      if (a != to[0]) to.push_back(a);
    }
    const UOp written = ctx_.Make(Op::CONTIGUOUS, x.dtype(), {ir::Permute(ctx_, x, to)});
    return ir::Permute(ctx_, written, back);
  }
  UOp Power(UOp maybe_scale, UOp x) {
    if (maybe_scale) x = ir::Mul(ctx_, x, ir::Cast(ctx_, maybe_scale, x.dtype()));
    return ir::Alu(ctx_, Op::EXP2, {x});
  }

  // The scores in blocks. Keys that pad the last block have -infinity.
  UOp BlocksOfScores(const Softmax& p) {
    const auto axis = static_cast<size_t>(p.axis);
    AxisSplitter splitter(ctx_, p.keys, blocks_, block_);
    const UOp s = splitter.Split(p.scores, axis);
    if (blocks_ * block_ == p.keys) return s;
    SymbolicDims dims(DimsOf(s).size(), ctx_.Idx(1));
    dims[axis] = ctx_.Idx(blocks_);
    dims[axis + 1] = ctx_.Idx(block_);
    const UOp shape = ir::ShapeArg(ctx_, dims);
    const UOp first =
        ir::Mul(ctx_, ir::Iota(ctx_, Dtype::I32, shape, p.axis), ctx_.Int(Dtype::I32, block_));
    const UOp key = ir::Add(ctx_, first, ir::Iota(ctx_, Dtype::I32, shape, p.axis + 1));
    return ir::Where(ctx_, ir::Lt(ctx_, key, ctx_.Int(Dtype::I32, p.keys)), s,
                     ctx_.Const(s.dtype(), -std::numeric_limits<double>::infinity()));
  }

  // What a value of each block is in the product, whose axis `axis` the keys are: along that axis
  // the blocks.
  UOp InProduct(UOp x, const SoftmaxProduct& view, UOp product, size_t axis) {
    const auto at = static_cast<size_t>(view.softmax.axis);
    SymbolicDims all = DimsOf(x);
    all[at + 1] = ctx_.Idx(block_);
    UOp y = Merged(ir::Expand(ctx_, x, ir::ShapeArg(ctx_, all)), at, view.softmax.keys);
    std::vector<UOp> way;
    for (UOp u = view.top; u != view.base; u = u.src(0)) {
      if (!u.Is(Op::CAST)) way.push_back(u);
    }
    for (auto u = way.rbegin(); u != way.rend(); ++u) y = WithBelow(ctx_, *u, u->src(0), y);
    y = Split(ir::Expand(ctx_, y, ir::ShapeArg(ctx_, DimsOf(product))), axis);
    return ir::Cast(ctx_, Resized(y, axis + 1, 1), wide_);
  }

  UOp Divided(UOp reduce, const SoftmaxProduct& view) {
    const UOp mul = view.mul;
    const size_t side = view.side;
    const Softmax& p = view.softmax;
    const auto axis = static_cast<size_t>(reduce.reduce_axes()[0]),
               at = static_cast<size_t>(p.axis);
    wide_ = reduce.dtype() == Dtype::F64 ? Dtype::F64 : Dtype::F32;
    block_ = BlockOf(p.keys);
    blocks_ = (p.keys + block_ - 1) / block_;
    const UOp s = BlocksOfScores(p), most = Reduced(Op::MAX, s, at + 1);
    auto number = [&](Dtype dtype, double v) { return ctx_.Const(dtype, v); };
    constexpr double kNever = -std::numeric_limits<double>::infinity();
    // 2^(-infinity - 0) instead of 2^(-infinity + infinity), which is NaN.
    const UOp some = ir::Alu(ctx_, Op::CMPNE, {most, number(s.dtype(), kNever)});
    const UOp e =
        Power(p.maybe_scale, ir::Sub(ctx_, s, ir::Where(ctx_, some, most, number(s.dtype(), 0))));
    const UOp sum = Reduced(Op::ADD, e, at + 1);
    const UOp each = ir::Alu(ctx_, Op::FDIV, {e, sum});
    const UOp factor = WithBelow(ctx_, view.top, view.base, Merged(each, at, p.keys));
    const UOp product =
        side == 0 ? ir::Mul(ctx_, factor, mul.src(1)) : ir::Mul(ctx_, mul.src(0), factor);
    const UOp terms = ir::Cast(ctx_, WithBelow(ctx_, reduce.src(0), mul, product), wide_);
    const UOp inside = Reduced(Op::ADD, Split(terms, axis), axis + 1);
    // Values of a block, once for each of its results. The results use them element by element, so
    // that one kernel computes and writes all three (fusion.h). Without keys, 0 instead of 0 / 0.
    const UOp m = Written(InProduct(most, view, product, axis), axis),
              l = Written(InProduct(sum, view, product, axis), axis);
    const UOp any = ir::And(ctx_, ir::Alu(ctx_, Op::CMPNE, {m, number(wide_, kNever)}),
                            ir::Lt(ctx_, number(wide_, 0), l));
    const UOp means = Written(ir::Where(ctx_, any, inside, number(wide_, 0)), axis);
    const UOp weight =
        ir::Mul(ctx_, Power(p.maybe_scale, ir::Sub(ctx_, m, Reduced(Op::MAX, m, axis))), l);
    const UOp share = ir::Alu(ctx_, Op::FDIV, {weight, Reduced(Op::ADD, weight, axis)});
    const UOp mean = Reduced(Op::ADD, ir::Mul(ctx_, share, means), axis);
    return ir::Cast(ctx_, ir::Reshape(ctx_, mean, ir::ShapeArg(ctx_, DimsOf(reduce))),
                    reduce.dtype());
  }

  UOpContext& ctx_;
  const Options& options_;
  const int64_t longest_;  // row of f32 that can be staged
  SoftmaxProducts products_;
  // Of the softmax that is divided.
  int64_t blocks_ = 0, block_ = 0;
  Dtype wide_ = Dtype::F32;  // of what the blocks give
};

}  // namespace

UOp SplitSoftmaxes(UOpContext& ctx, const std::vector<UOp>& order, const Options& options) {
  SoftmaxSplitter splitter(ctx, order, options);
  return RewriteReduces(ctx, order, [&](UOp made, UOp old) { return splitter.Rewrite(made, old); });
}

}  // namespace uopd::schedule
