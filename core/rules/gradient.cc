// SPDX-License-Identifier: MIT
#include "core/rules/gradient.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numbers>

#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/shape.h"
#include "core/ir/verify/spec.h"

namespace uopd::rules {
namespace {

using ir::Dims;
using ir::Op;
using ir::Shape;
using ir::SymbolicDims;
using ir::UOp;
using ir::UOpContext;

// The gradients of the sources of a node, in order; null: no gradient flows. A gradient may have a
// shape that its source broadcasts to.
using Gradients = absl::InlinedVector<UOp, 3>;
// y is the node, g its gradient in y's shape and dtype.
using Rule = Gradients (*)(UOpContext& ctx, UOp y, UOp g);

UOp Like(UOpContext& ctx, UOp x, double v) { return ctx.Const(x.dtype(), v); }
UOp Times(UOpContext& ctx, UOp a, UOp b) { return ir::Mul(ctx, a, b); }
UOp Over(UOpContext& ctx, UOp a, UOp b) { return ir::Alu(ctx, Op::FDIV, {a, b}); }
UOp Minus(UOpContext& ctx, UOp a) { return ir::Alu(ctx, Op::NEG, {a}); }
UOp Equal(UOpContext& ctx, UOp a, UOp b) { return ir::Alu(ctx, Op::CMPEQ, {a, b}); }
UOp SumOverAxes(UOpContext& ctx, UOp x, std::span<const int64_t> axes) {
  return axes.empty() ? x : ir::ReduceAxes(ctx, Op::ADD, x, axes);
}
UOp Reshaped(UOpContext& ctx, UOp x, Shape shape) {
  return ir::SameShape(*ctx.ShapeOf(x), shape) ? x : ir::Reshape(ctx, x, ir::ShapeArg(ctx, shape));
}
UOp Expanded(UOpContext& ctx, UOp x, Shape shape) {
  return ir::SameShape(*ctx.ShapeOf(x), shape) ? x : ir::Expand(ctx, x, ir::ShapeArg(ctx, shape));
}

// The inverse of broadcasting `shape` to the shape of g: sums g over the repeated axes.
UOp Unbroadcast(UOpContext& ctx, UOp g, Shape shape) {
  const Shape from = *ctx.ShapeOf(g);
  const size_t extra = from.size() - shape.size();
  Dims axes;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool repeated = i < extra || (shape[i - extra].IsConstInt(1) && !from[i].IsConstInt(1));
    if (repeated) axes.push_back(static_cast<int64_t>(i));
  }
  return Reshaped(ctx, SumOverAxes(ctx, g, axes), shape);
}

// Unary ops: g times the derivative.
Gradients Exp2Rule(UOpContext& ctx, UOp y, UOp g) {
  return {Times(ctx, g, Times(ctx, y, Like(ctx, y, std::numbers::ln2)))};
}
Gradients Log2Rule(UOpContext& ctx, UOp y, UOp g) {
  return {Over(ctx, g, Times(ctx, y.src(0), Like(ctx, y, std::numbers::ln2)))};
}
Gradients SinRule(UOpContext& ctx, UOp y, UOp g) {
  return {Times(ctx, g, ir::Alu(ctx, Op::COS, {y.src(0)}))};
}
Gradients CosRule(UOpContext& ctx, UOp y, UOp g) {
  return {Minus(ctx, Times(ctx, g, ir::Alu(ctx, Op::SIN, {y.src(0)})))};
}
Gradients ExpRule(UOpContext& ctx, UOp y, UOp g) { return {Times(ctx, g, y)}; }
Gradients LogRule(UOpContext& ctx, UOp y, UOp g) { return {Over(ctx, g, y.src(0))}; }
Gradients SqrtRule(UOpContext& ctx, UOp y, UOp g) {
  return {Over(ctx, g, Times(ctx, y, Like(ctx, y, 2)))};
}
Gradients ReciprocalRule(UOpContext& ctx, UOp y, UOp g) {
  return {Minus(ctx, Times(ctx, g, Times(ctx, y, y)))};
}
Gradients NegRule(UOpContext& ctx, UOp, UOp g) { return {Minus(ctx, g)}; }

// Binary and ternary ops.
Gradients AddRule(UOpContext&, UOp, UOp g) { return {g, g}; }
Gradients SubRule(UOpContext& ctx, UOp, UOp g) { return {g, Minus(ctx, g)}; }
Gradients MulRule(UOpContext& ctx, UOp y, UOp g) {
  return {Times(ctx, g, y.src(1)), Times(ctx, g, y.src(0))};
}
Gradients FdivRule(UOpContext& ctx, UOp y, UOp g) {
  const UOp gx = Over(ctx, g, y.src(1));
  return {gx, Minus(ctx, Times(ctx, gx, y))};
}
Gradients MaxRule(UOpContext& ctx, UOp y, UOp g) {
  const UOp a = y.src(0), b = y.src(1), zero = Like(ctx, y, 0);
  if (y.tag() == kTieFirst) {
    const UOp less = ir::Lt(ctx, a, b);
    return {ir::Where(ctx, less, zero, g), ir::Where(ctx, less, g, zero)};
  }
  if (y.tag() == kTieSecond) {
    const UOp more = ir::Lt(ctx, b, a);
    return {ir::Where(ctx, more, g, zero), ir::Where(ctx, more, zero, g)};
  }
  const UOp half = Times(ctx, g, Like(ctx, y, 0.5));
  const UOp tie = Equal(ctx, a, b);
  auto part = [&](UOp mine, UOp other) {
    return ir::Where(ctx, tie, half, ir::Where(ctx, ir::Lt(ctx, other, mine), g, zero));
  };
  return {part(a, b), part(b, a)};
}
Gradients PowRule(UOpContext& ctx, UOp y, UOp g) {
  const UOp base = y.src(0), exponent = y.src(1);
  const UOp less_one = ir::Alu(ctx, Op::POW, {base, ir::Sub(ctx, exponent, Like(ctx, y, 1))});
  // x^0 is constant, so its slope is 0, also at x = 0, where x^-1 is infinite.
  const UOp slope = ir::Where(ctx, Equal(ctx, exponent, Like(ctx, y, 0)), Like(ctx, y, 0),
                              Times(ctx, exponent, less_one));
  // 0^y is 0 for y > 0 and infinite for y < 0. At y = 0 the slope is that of the side where the
  // power is finite.
  const UOp zero = Like(ctx, y, 0);
  const UOp of_zero = ir::Where(ctx, ir::Lt(ctx, exponent, zero),
                                Like(ctx, y, -std::numeric_limits<double>::infinity()), zero);
  const UOp growth =
      ir::Where(ctx, Equal(ctx, base, zero), of_zero, Times(ctx, y, ir::Alu(ctx, Op::LOG, {base})));
  return {Times(ctx, g, slope), Times(ctx, g, growth)};
}
Gradients WhereRule(UOpContext& ctx, UOp y, UOp g) {
  const UOp zero = Like(ctx, y, 0);
  return {UOp(), ir::Where(ctx, y.src(0), g, zero), ir::Where(ctx, y.src(0), zero, g)};
}
Gradients MulaccRule(UOpContext& ctx, UOp y, UOp g) {
  return {Times(ctx, g, y.src(1)), Times(ctx, g, y.src(0)), g};
}

// Conversions and marks.
Gradients CastRule(UOpContext& ctx, UOp y, UOp g) {
  return {ir::IsFloat(y.src(0).dtype()) ? ir::Cast(ctx, g, y.src(0).dtype()) : UOp()};
}
Gradients NoGradient(UOpContext&, UOp y, UOp) { return Gradients(y.n_src(), UOp()); }
Gradients DetachRule(UOpContext& ctx, UOp y, UOp g) {
  if (y.n_src() > 2) return {UOp(), Times(ctx, g, y.src(2)), UOp()};
  return y.n_src() > 1 ? Gradients{UOp(), g} : Gradients{UOp()};
}
Gradients Through(UOpContext&, UOp, UOp g) { return {g}; }
Gradients ContiguousBackwardRule(UOpContext& ctx, UOp, UOp g) {
  return {ctx.Make(Op::CONTIGUOUS, g.dtype(), {g})};
}
// What says where a value is: the first node below it that has a device or is in pieces. Null: it
// needs none.
UOp HomeOf(UOp u) {
  constexpr ir::OpSet kPlaced = {Op::COPY, Op::PARAM, Op::BUFFER, Op::MULTI};
  std::vector<UOp> stack = {u};
  absl::flat_hash_set<uint32_t> seen;
  while (!stack.empty()) {
    const UOp v = stack.back();
    stack.pop_back();
    if (v.Is(kPlaced)) return v;
    if (!seen.insert(v.id()).second) continue;
    for (size_t i = v.n_src(); i-- > 0;) stack.push_back(v.src(i));
  }
  return UOp();
}

// Copies the gradient back to the device of the source. Values in pieces go by themselves to where
// they are needed.
UOp CopiedBack(UOpContext& ctx, UOp y, UOp g, std::string_view default_device) {
  const UOp home = HomeOf(y.src(0));
  if (!home || home.Is(Op::MULTI)) return g;
  const std::string_view device = home.text().empty() ? default_device : home.text();
  return device.empty() ? g : ctx.Make(Op::COPY, g.dtype(), {g}, ctx.Data({}, device));
}

// Movement.
Gradients ReshapeRule(UOpContext& ctx, UOp y, UOp g) {
  return {Reshaped(ctx, g, *ctx.ShapeOf(y.src(0))), UOp()};
}
Gradients ExpandRule(UOpContext&, UOp, UOp g) { return {g, UOp()}; }  // Gradient() sums g
Gradients PermuteRule(UOpContext& ctx, UOp y, UOp g) {
  Dims inverse(y.ints().size());
  for (size_t i = 0; i < inverse.size(); ++i)
    inverse[static_cast<size_t>(y.ints()[i])] = static_cast<int64_t>(i);
  return {ir::Permute(ctx, g, inverse)};
}
Gradients PadRule(UOpContext& ctx, UOp y, UOp g) {
  return {ir::Shrink(ctx, g, y.src(1), ir::ShapeArg(ctx, *ctx.ShapeOf(y.src(0)))), UOp(), UOp()};
}
Gradients ShrinkRule(UOpContext& ctx, UOp y, UOp g) {
  return {ir::Pad(ctx, g, y.src(1), ir::ShapeArg(ctx, *ctx.ShapeOf(y.src(0)))), UOp(), UOp()};
}
Gradients FlipRule(UOpContext& ctx, UOp y, UOp g) { return {ir::Flip(ctx, g, y.ints())}; }
Gradients StackRule(UOpContext& ctx, UOp y, UOp g) {
  const Shape whole = *ctx.ShapeOf(y);
  SymbolicDims box(whole.begin(), whole.end());
  box[0] = ctx.Idx(1);
  SymbolicDims start(whole.size(), ctx.Idx(0));
  Gradients out;
  for (size_t i = 0; i < y.n_src(); ++i) {
    start[0] = ctx.Idx(static_cast<int64_t>(i));
    const UOp row =
        ir::Shrink(ctx, g, ir::ShapeArg(ctx, Shape(start)), ir::ShapeArg(ctx, Shape(box)));
    out.push_back(Reshaped(ctx, row, whole.subspan(1)));
  }
  return out;
}

Gradients MultiRule(UOpContext& ctx, UOp y, UOp g) {
  // Without an axis the sources are copies of one value: the first one gets the gradient.
  Gradients out(y.n_src(), UOp());
  if (y.ints().empty()) {
    out[0] = g;
    return out;
  }
  const auto axis = static_cast<size_t>(y.ints()[0]);
  SymbolicDims start(ctx.ShapeOf(y)->size(), ctx.Idx(0));
  int64_t at = 0;
  for (size_t i = 0; i < y.n_src(); ++i) {
    const Shape piece = *ctx.ShapeOf(y.src(i));
    start[axis] = ctx.Idx(at);
    out[i] = ir::Shrink(ctx, g, ir::ShapeArg(ctx, Shape(start)), ir::ShapeArg(ctx, piece));
    at += piece[axis].const_int();
  }
  return out;
}

// y as a node of its own, which no memory takes the place of. A maximum is exact: computed anew
// beside x, it equals an element of x, while a stored one may have been computed from an x that was
// rounded in another way. In a graph that is sent, it is y again.
UOp Anew(UOpContext& ctx, UOp y) {
  return ctx.Make(y.op(), y.dtype(), y.srcs(), y.arg(), kComputedAnew);
}

// A REDUCE keeps its axes with size 1, so y and g broadcast against x.
Gradients ReduceRule(UOpContext& ctx, UOp y, UOp g) {
  const UOp x = y.src(0);
  const auto axes = y.reduce_axes();
  const Shape whole = *ctx.ShapeOf(x);
  if (y.reduce_op() == Op::ADD) return {Expanded(ctx, g, whole)};
  if (y.reduce_op() == Op::MAX) {
    const UOp hit = ir::Where(ctx, Equal(ctx, x, Anew(ctx, y)), Like(ctx, x, 1), Like(ctx, x, 0));
    return {Times(ctx, Over(ctx, g, SumOverAxes(ctx, hit, axes)), hit)};
  }
  // MUL: the slope of an element is the product of the other elements. y / x would fail at zeros,
  // so count the zeros: none: y / x; one: the zero gets the product of the rest, the others 0;
  // more: 0.
  const UOp zero = Like(ctx, x, 0), one = Like(ctx, x, 1);
  const UOp is_zero = Equal(ctx, x, zero);
  const UOp count = SumOverAxes(ctx, ir::Where(ctx, is_zero, one, zero), axes);
  const UOp safe = ir::Where(ctx, is_zero, one, x);
  const UOp rest = axes.empty() ? safe : ir::ReduceAxes(ctx, Op::MUL, safe, axes);
  const UOp alone = ir::Where(ctx, Equal(ctx, count, one), rest, zero);
  const UOp others = ir::Where(
      ctx, is_zero, alone, ir::Where(ctx, Equal(ctx, count, zero), Over(ctx, rest, safe), zero));
  return {Times(ctx, g, others)};
}

UOp Flipped(UOpContext& ctx, UOp x, int64_t axis) { return ir::Flip(ctx, x, std::span(&axis, 1)); }
// For each element the sum of it and all later ones.
UOp SumFromEnd(UOpContext& ctx, UOp x, int64_t axis) {
  return Flipped(ctx, ir::Scan(ctx, Op::ADD, Flipped(ctx, x, axis), axis), axis);
}

// Element i of a running product is in the results from i on, times the other elements up to there.
// Before the first zero that is y / x. The first zero gets the products in which it is replaced
// by 1. Elements after it get 0: their results are 0 whatever they are.
Gradients ScanMulRule(UOpContext& ctx, UOp y, UOp g, int64_t axis) {
  const UOp x = y.src(0), zero = Like(ctx, x, 0), one = Like(ctx, x, 1);
  const UOp is_zero = Equal(ctx, x, zero);
  const UOp count = ir::Scan(ctx, Op::ADD, ir::Where(ctx, is_zero, one, zero), axis);
  const UOp first = ir::And(ctx, is_zero, Equal(ctx, count, one));
  const UOp rest = ir::Scan(ctx, Op::MUL, ir::Where(ctx, first, one, x), axis);
  const UOp plain =
      Over(ctx, SumFromEnd(ctx, Times(ctx, g, y), axis), ir::Where(ctx, is_zero, one, x));
  const UOp alone = SumFromEnd(ctx, Times(ctx, g, rest), axis);
  return {ir::Where(ctx, Equal(ctx, count, zero), plain, ir::Where(ctx, first, alone, zero))};
}

// x moved by one place along an axis, with 0 in front.
UOp ShiftedBack(UOpContext& ctx, UOp x, size_t axis) {
  const Shape shape = *ctx.ShapeOf(x);
  SymbolicDims fewer(shape.begin(), shape.end()), zeros(shape.size(), ctx.Idx(0)), one = zeros;
  fewer[axis] = ir::Alu(ctx, Op::ADD, {shape[axis], ctx.Idx(-1)});
  if (shape[axis].Is(Op::CONST))
    fewer[axis] = ctx.Idx(std::max<int64_t>(0, shape[axis].const_int() - 1));
  one[axis] = ctx.Idx(1);
  if (shape[axis].IsConstInt(1) || shape[axis].IsConstInt(0)) return x;
  const UOp part =
      ir::Shrink(ctx, x, ir::ShapeArg(ctx, Shape(zeros)), ir::ShapeArg(ctx, Shape(fewer)));
  return ir::Pad(ctx, part, ir::ShapeArg(ctx, Shape(one)), ir::ShapeArg(ctx, shape));
}

// Each result takes the first element that equals it (or is NaN), as fn::CumMax says. The gradients
// of all results that took an element are added up in a row for each element, without cancellation:
// quadratic time.
Gradients ScanMaxRule(UOpContext& ctx, UOp y, UOp g, int64_t axis) {
  const UOp x = y.src(0);
  const Shape shape = *ctx.ShapeOf(x);
  const auto at = static_cast<size_t>(axis);
  SymbolicDims column(shape.size(), ctx.Idx(1)), row(shape.size() + 1, ctx.Idx(1));
  column[at] = shape[at];
  row[at] = shape[at];
  const auto iota = [&](const SymbolicDims& dims) {
    return ir::Iota(ctx, ir::Dtype::I64, ir::ShapeArg(ctx, Shape(dims)), axis);
  };
  // The results before each one; what is before the first one does not matter.
  const UOp before = ShiftedBack(ctx, Anew(ctx, y), at);
  const UOp first_nan = ir::And(ctx, ir::Alu(ctx, Op::CMPNE, {x, x}), Equal(ctx, before, before));
  const UOp hit = ir::Alu(ctx, Op::OR, {ir::Lt(ctx, before, x), first_nan});
  const UOp mine = ir::Where(ctx, hit, iota(column), ctx.Int(ir::Dtype::I64, 0));
  const UOp taken = ir::Scan(ctx, Op::MAX, mine, axis);
  // [..., 1, n, ...]: the results. [..., n, 1, ...]: the elements.
  SymbolicDims results(shape.begin(), shape.end());
  results.insert(results.begin() + axis, ctx.Idx(1));
  const UOp to = Reshaped(ctx, taken, Shape(results)), part = Reshaped(ctx, g, Shape(results));
  const UOp chosen = ir::Where(ctx, Equal(ctx, to, iota(row)), part, Like(ctx, x, 0));
  const int64_t summed = axis + 1;
  return {Reshaped(ctx, SumOverAxes(ctx, chosen, std::span(&summed, 1)), shape)};
}

// A running sum adds each element to its own result and to all later ones.
Gradients ScanRule(UOpContext& ctx, UOp y, UOp g) {
  const int64_t axis = y.reduce_axes()[0];
  if (y.reduce_op() == Op::ADD) return {SumFromEnd(ctx, g, axis)};
  return y.reduce_op() == Op::MUL ? ScanMulRule(ctx, y, g, axis) : ScanMaxRule(ctx, y, g, axis);
}

// The operands that a rule returns gradients for: the sources of y. For an AFTER: the state before
// it, and the values that its STOREs write into the same buffer.
Gradients Operands(UOp y) {
  if (!y.Is(Op::AFTER)) return {y.srcs().begin(), y.srcs().end()};
  Gradients out = {y.src(0)};
  for (UOp s : y.srcs().subspan(1)) {
    if (s.Is(Op::STORE) && ir::MaybeBaseOf(s.src(0)) == ir::MaybeBaseOf(y.src(0)))
      out.push_back(s.src(1));
  }
  return out;
}

Gradients AfterRule(UOpContext& ctx, UOp y, UOp g);

struct RuleTable {
  std::array<Rule, ir::kOpCount> rules{};
  RuleTable() {
    auto set = [&](Op op, Rule rule) { rules[static_cast<size_t>(op)] = rule; };
    set(Op::EXP2, Exp2Rule);
    set(Op::LOG2, Log2Rule);
    set(Op::SIN, SinRule);
    set(Op::COS, CosRule);
    set(Op::EXP, ExpRule);
    set(Op::LOG, LogRule);
    set(Op::SQRT, SqrtRule);
    set(Op::RECIPROCAL, ReciprocalRule);
    set(Op::NEG, NegRule);
    set(Op::TRUNC, NoGradient);
    set(Op::ADD, AddRule);
    set(Op::SUB, SubRule);
    set(Op::MUL, MulRule);
    set(Op::FDIV, FdivRule);
    set(Op::MAX, MaxRule);
    set(Op::POW, PowRule);
    set(Op::WHERE, WhereRule);
    set(Op::MULACC, MulaccRule);
    set(Op::CAST, CastRule);
    set(Op::BITCAST, NoGradient);
    set(Op::DETACH, DetachRule);
    set(Op::CONTIGUOUS, Through);
    set(Op::CONTIGUOUS_BACKWARD, ContiguousBackwardRule);
    set(Op::COPY, Through);  // Gradient() copies it back
    set(Op::RESHAPE, ReshapeRule);
    set(Op::EXPAND, ExpandRule);
    set(Op::PERMUTE, PermuteRule);
    set(Op::PAD, PadRule);
    set(Op::SHRINK, ShrinkRule);
    set(Op::FLIP, FlipRule);
    set(Op::STACK, StackRule);
    set(Op::MULTI, MultiRule);
    set(Op::REDUCE, ReduceRule);
    set(Op::SCAN, ScanRule);
    set(Op::AFTER, AfterRule);
    for (Op op : {Op::CMPLT, Op::CMPNE, Op::CMPEQ}) set(op, NoGradient);
  }
};

Rule RuleOf(Op op) {
  static const RuleTable* const table = new RuleTable;
  return table->rules[static_cast<size_t>(op)];
}

// The views between a value and its buffer, from the buffer to the value.
std::vector<UOp> ViewsOf(UOp view) {
  std::vector<UOp> out;
  for (; view.Is(ir::kMovementOps) || view.Is(Op::AFTER); view = view.src(0)) {
    if (!view.Is(Op::AFTER)) out.push_back(view);
  }
  std::reverse(out.begin(), out.end());
  return out;
}
// Applies the views to x, a value with the shape of the buffer.
UOp Viewed(UOpContext& ctx, std::span<const UOp> views, UOp x) {
  for (UOp v : views) {
    SymbolicDims srcs(v.srcs().begin(), v.srcs().end());
    srcs[0] = x;
    x = ctx.Make(v.op(), x.dtype(), srcs, v.arg());
  }
  return x;
}
// The inverse of Viewed: a value with the shape of the buffer, 0 for elements outside of the view.
UOp Scattered(UOpContext& ctx, std::span<const UOp> views, UOp x) {
  for (size_t i = views.size(); i-- > 0;)
    x = Unbroadcast(ctx, RuleOf(views[i].op())(ctx, views[i], x)[0], *ctx.ShapeOf(views[i].src(0)));
  return x;
}

// The gradient of an element goes to the last STORE that wrote it, else to the state before.
Gradients AfterRule(UOpContext& ctx, UOp y, UOp g) {
  const std::vector<UOp> whole = ViewsOf(y.src(0));
  UOp rest = Scattered(ctx, whole, g);
  Gradients out = Operands(y);
  size_t n = out.size();
  for (size_t i = y.n_src(); i-- > 1;) {
    const UOp store = y.src(i);
    if (n == 1 || !store.Is(Op::STORE) || store.src(1) != out[n - 1]) continue;
    const std::vector<UOp> views = ViewsOf(store.src(0));
    const UOp ones = Expanded(ctx, Like(ctx, rest, 1), *ctx.ShapeOf(store.src(1)));
    const UOp before = Equal(ctx, Scattered(ctx, views, ones), Like(ctx, rest, 0));
    out[--n] = Viewed(ctx, views, rest);
    rest = ir::Where(ctx, before, rest, Like(ctx, rest, 0));
  }
  out[0] = Viewed(ctx, whole, rest);
  return out;
}

absl::Status CheckRequest(UOpContext& ctx, UOp loss, UOp seed, std::span<const UOp> targets) {
  if (!ir::IsFloat(loss.dtype()))
    return absl::InvalidArgumentError(
        Cat("the loss has dtype ", ir::Name(loss.dtype()), "; a gradient needs a float"));
  const Shape* shape = ctx.ShapeOf(loss);
  const Shape* seed_shape = ctx.ShapeOf(seed);
  if (shape == nullptr || seed_shape == nullptr || !ir::SameShape(*shape, *seed_shape) ||
      seed.dtype() != loss.dtype()) {
    return absl::InvalidArgumentError(
        "the seed of a gradient needs the shape and dtype of the loss");
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!ir::IsFloat(targets[i].dtype()) || ctx.ShapeOf(targets[i]) == nullptr) {
      return absl::InvalidArgumentError(Cat(
          "target ", i, " has dtype ", ir::Name(targets[i].dtype()), "; a gradient needs a float"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<UOp>> Gradient(UOpContext& ctx, UOp loss, UOp seed,
                                          std::span<const UOp> targets,
                                          std::string_view default_device) {
  UOPD_TRY(CheckRequest(ctx, loss, seed, targets));
  const std::vector<UOp> order = ir::Toposort(ctx, loss);
  const size_t n = ctx.size();  // nodes of the forward graph; the walk only adds younger ones
  // wanted: nodes that depend on a target through floats. Only these are walked.
  std::vector<bool> wanted(n, false);
  for (UOp t : targets) wanted[t.id()] = true;
  for (UOp u : order) {
    if (wanted[u.id()] || !ir::IsFloat(u.dtype())) continue;
    for (UOp s : Operands(u)) {
      if (ir::IsFloat(s.dtype()) && wanted[s.id()]) wanted[u.id()] = true;
    }
  }
  std::vector<UOp> gradient(n);
  ir::Substitution fixed;
  if (wanted[loss.id()]) gradient[loss.id()] = seed;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const UOp y = *it, g = gradient[y.id()];
    if (!g || y.n_src() == 0) continue;
    const Gradients operands = Operands(y);
    bool flows = false;
    for (UOp s : operands) flows |= ir::IsFloat(s.dtype()) && wanted[s.id()];
    if (!flows) continue;
    if (y.Is(Op::DETACH) && y.tag() == kUnknownSlope)
      return absl::UnimplementedError(
          "the loss is computed from a gradient that has no gradient itself, such as that of svd");
    if (y.Is(Op::DETACH) && y.tag() == kFixed)
      fixed.emplace(y.id(), ctx.Make(y.op(), y.dtype(), y.srcs(), y.arg(), kUnknownSlope));
    const Rule rule = RuleOf(y.op());
    if (rule == nullptr)
      return absl::UnimplementedError(Cat("op ", ir::Name(y.op()), " has no gradient rule"));
    Gradients parts = rule(ctx, y, g);
    if (y.Is(Op::COPY)) parts[0] = CopiedBack(ctx, y, parts[0], default_device);
    for (size_t i = 0; i < operands.size(); ++i) {
      const UOp s = operands[i];
      if (!parts[i] || !wanted[s.id()] || !ir::IsFloat(s.dtype())) continue;
      const UOp part = Unbroadcast(ctx, parts[i], *ctx.ShapeOf(s));
      UOp& sum = gradient[s.id()];
      sum = sum ? ir::Add(ctx, sum, part) : part;
    }
  }
  std::vector<UOp> out;
  for (UOp t : targets) {
    out.push_back(gradient[t.id()] ? gradient[t.id()]
                                   : Expanded(ctx, ctx.Const(t.dtype(), 0), *ctx.ShapeOf(t)));
    if (!fixed.empty()) out.back() = ir::Substitute(ctx, out.back(), fixed);
  }
  return out;
}

}  // namespace uopd::rules
