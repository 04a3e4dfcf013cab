// SPDX-License-Identifier: MIT
#include "core/schedule/prepare/split_softmax.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "core/ir/build.h"
#include "core/ir/shape.h"
#include "core/schedule/prepare/axis_map.h"
#include "core/schedule/prepare/rebuild.h"
#include "core/schedule/prepare/split_axis.h"

namespace uopd::schedule {
namespace {

using ir::Dtype;
using ir::Op;
using ir::OpSet;
using ir::SymbolicDims;
using ir::UOp;
using ir::UOpContext;

// A row of scores of one block is this part of the longest row that can be staged: codegen computes several rows at once.
constexpr int64_t kPart = 16;
constexpr int64_t kLeastBlock =
    4;  // keys; with fewer, the blocks' results are as many as the scores

// With fewer scores for each key, such as those of one query, scores take little memory beside keys and values, and storing them is
// cheaper: the kernels that do nothing else read keys and values faster.
constexpr double kLeastScores = 8;

// FDIV(e, REDUCE ADD e) with e = EXP2(scale * (scores - REDUCE MAX scores)), over one axis.
struct Softmax {
  UOp scores;
  UOp maybe_scale;  // a positive constant
  int64_t axis = 0, keys = 0;
};

UOp Under(OpSet ops, UOp u) {
  while (u.Is(ops)) u = u.src(0);
  return u;
}

// The axis of a REDUCE over one axis; -1: u is no such REDUCE of x.
int64_t AxisOf(Op op, UOp u, UOp x) {
  const bool is = u.Is(Op::REDUCE) && u.reduce_op() == op && u.reduce_axes().size() == 1;
  return is && Under(OpSet{Op::CAST}, u.src(0)) == x ? u.reduce_axes()[0] : -1;
}

std::optional<Softmax> SoftmaxOf(UOpContext& ctx, UOp u) {
  constexpr OpSet kSameValue = {Op::CAST, Op::DETACH};
  if (!u.Is(Op::FDIV) || !u.src(0).Is(Op::EXP2)) return std::nullopt;
  const UOp e = u.src(0);
  Softmax out;
  out.axis = AxisOf(Op::ADD, Under(kSameValue, u.src(1)), e);
  UOp off = e.src(0);
  if (off.Is(Op::MUL)) {
    const int at = off.src(1).Is(Op::CONST) ? 1 : 0;
    out.maybe_scale = off.src(static_cast<size_t>(at));
    if (!out.maybe_scale.Is(Op::CONST) || !(out.maybe_scale.const_float() > 0)) return std::nullopt;
    off = off.src(static_cast<size_t>(1 - at));
  }
  if (out.axis < 0 || !off.Is(Op::SUB)) return std::nullopt;
  out.scores = off.src(0);
  if (AxisOf(Op::MAX, Under(kSameValue, off.src(1)), out.scores) != out.axis) return std::nullopt;
  const UOp keys = (*ctx.ShapeOf(out.scores))[static_cast<size_t>(out.axis)];
  if (!keys.Is(Op::CONST)) return std::nullopt;
  out.keys = keys.const_int();
  return out;
}

class Splitter {
 public:
  Splitter(UOpContext& ctx, const std::vector<UOp>& order, const Options& options)
      : ctx_(ctx),
        longest_(std::min(options.stage_bytes, options.limits.stage_bytes) / 4),
        uses_(ctx.size(), 0) {
    for (UOp u : order) {
      for (UOp s : u.srcs()) ++uses_[s.id()];
    }
  }

  // The REDUCE `made` divided into blocks, or `made`. `old`: the same node of the graph before.
  UOp Rewrite(UOp made, UOp old) {
    if (made.reduce_op() != Op::ADD || made.reduce_axes().size() != 1) return made;
    const UOp mul = Under(OpSet{Op::CAST}, made.src(0)),
              old_mul = Under(OpSet{Op::CAST}, old.src(0));
    if (!mul.Is(Op::MUL) || !old_mul.Is(Op::MUL)) return made;
    for (size_t side : {0, 1}) {
      const auto p = Factor(made, mul, old_mul, side);
      const UOp values = Under(ir::kMovementOps | OpSet{Op::CAST}, mul.src(1 - side));
      if (p && Elements(mul) >= kLeastScores * Elements(values))
        return Divided(made, mul, side, *p);
    }
    return made;
  }

 private:
  struct View {
    UOp top, base;  // base: the softmax that top is a view of
    Softmax softmax;
  };

  // The factor of the product if it is a softmax over the keys that are summed up, and nothing else uses it.
  std::optional<View> Factor(UOp reduce, UOp mul, UOp old_mul, size_t side) {
    constexpr OpSet kViews = {Op::RESHAPE, Op::EXPAND, Op::PERMUTE, Op::CAST};
    UOp u = mul.src(side), old = old_mul.src(side);
    const int64_t missing =
        static_cast<int64_t>(ctx_.ShapeOf(mul)->size() - ctx_.ShapeOf(u)->size());
    AxisMap map;
    for (size_t i = 0; i < ctx_.ShapeOf(u)->size(); ++i)
      map.push_back(static_cast<int>(missing) + static_cast<int>(i));
    while (u.Is(kViews) && u.op() == old.op() && uses_[old.id()] == 1) {
      map = MapBelow(ctx_, u, map);
      u = u.src(0), old = old.src(0);
    }
    if (uses_[old.id()] != 1) return std::nullopt;
    const auto softmax = SoftmaxOf(ctx_, u);
    if (!softmax || softmax->keys <= longest_ || longest_ < kPart * kLeastBlock)
      return std::nullopt;
    if (map[static_cast<size_t>(softmax->axis)] != reduce.reduce_axes()[0]) return std::nullopt;
    return View{mul.src(side), u, *softmax};
  }

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
  // In memory, the blocks (axis `axis`) outermost: so the order of the other axes, whatever it is, stays.
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

  // What a value of each block is in the product, whose axis `axis` the keys are: along that axis the blocks.
  UOp InProduct(UOp x, const View& view, UOp product, size_t axis) {
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

  UOp Divided(UOp reduce, UOp mul, size_t side, const View& view) {
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
    // Values of a block, once for each of its results. The results use them element by element, so that one kernel computes and
    // writes all three (fusion.h). Without keys, 0 instead of 0 / 0.
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
  const int64_t longest_;       // row of f32 that can be staged
  std::vector<uint32_t> uses_;  // by id, in the graph before
  // Of the softmax that is divided.
  int64_t blocks_ = 0, block_ = 0;
  Dtype wide_ = Dtype::F32;  // of what the blocks give
};

}  // namespace

UOp SplitSoftmaxes(UOpContext& ctx, const std::vector<UOp>& order, const Options& options) {
  Splitter splitter(ctx, order, options);
  return RewriteReduces(ctx, order, [&](UOp made, UOp old) { return splitter.Rewrite(made, old); });
}

}  // namespace uopd::schedule
