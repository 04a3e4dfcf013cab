// SPDX-License-Identifier: MIT
#include "tests/support/graph_generator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "core/base/text.h"
#include "core/ir/analysis/polynomial.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::test {
namespace {

using ir::Dims;
using ir::Dtype;
using ir::Op;
using ir::SymbolicDims;
using ir::UOp;
using ir::UOpContext;

constexpr int64_t kMaxElements = 400;

// A value, the largest magnitude that it can have, and its device.
struct Value {
  UOp node;
  double bound = 0;
  bool other_device = false;
};

// A magnitude up to which a dtype is exact, with room for one more operation.
double Limit(Dtype d) {
  switch (d) {
    case Dtype::F64:
      return 0x1p50;
    case Dtype::F32:
      return 0x1p22;
    case Dtype::I32:
      return 0x1p29;
    default:
      return 100;  // i8
  }
}

int64_t ValueOf(UOp d, const std::map<std::string, int64_t>& variables) {
  if (d.Is(Op::CONST)) return d.const_int();
  if (d.Is(Op::DEFINE_VAR)) return variables.at(std::string(d.text()));
  const int64_t a = ValueOf(d.src(0), variables), b = ValueOf(d.src(1), variables);
  return d.Is(Op::ADD) ? a + b : d.Is(Op::SUB) ? a - b : a * b;
}

std::vector<size_t> VisibleOf(UOpContext& ctx, ir::Shape dims,
                              const std::map<std::string, int64_t>& variables) {
  const Dims most = ir::MaxDims(ctx, dims);
  std::vector<size_t> out;
  for (int64_t i = 0; i < ir::Product(most); ++i) {
    int64_t rest = i;
    bool inside = true;
    for (size_t axis = most.size(); axis-- > 0; rest /= most[axis])
      inside &= rest % most[axis] < ValueOf(dims[axis], variables);
    if (inside) out.push_back(static_cast<size_t>(i));
  }
  return out;
}

class Generator {
 public:
  Generator(UOpContext& ctx, uint64_t seed, const GeneratorOptions& options)
      : ctx_(ctx),
        random_(seed * 3 + (options.symbolic ? 1 : 0) + (options.devices ? 2 : 0)),
        options_(options) {}

  GeneratedGraph Run() {
    if (options_.symbolic) {
      for (const char* name : {"n", "m"}) {
        const int low = Pick(0, 2), high = Pick(2, 5);
        variables_.push_back(ir::Variable(ctx_, name, low, high));
        out_.variables[name] = Pick(low, high);
      }
    }
    const int inputs = Pick(1, 3);
    for (int i = 0; i < inputs; ++i) {
      const Dtype dtypes[] = {Dtype::F64, Dtype::F32, Dtype::I32, Dtype::F32};
      const bool other = options_.devices && Pick(0, 2) == 0;
      const SymbolicDims dims = RandomDims();
      const UOp p = NewSlot(dims, dtypes[Pick(0, 3)], other);
      pool_.push_back({p, 3, other});
      inputs_.push_back(pool_.back());
    }
    for (int i = 0; i < options_.ops; ++i) {
      if (const Value v = Made(Any()); v.node && Fits(v)) pool_.push_back(v);
    }
    const int outputs = Pick(1, 4);
    for (int i = 0; i < outputs; ++i) Output(i == 0 ? pool_.back() : Any());
    for (const Value& p : inputs_) Assign(p);
    out_.sink = ir::Sink(ctx_, roots_);
    return std::move(out_);
  }

 private:
  // Never draw two random numbers in the arguments of one call: their order depends on the
  // compiler, and a seed must always give the same graph.
  int Pick(int lo, int hi) {
    return lo + static_cast<int>(random_() % static_cast<uint64_t>(hi - lo + 1));
  }
  Value Any() { return pool_[static_cast<size_t>(Pick(0, static_cast<int>(pool_.size()) - 1))]; }
  SymbolicDims ShapeOf(UOp u) {
    const ir::Shape s = *ctx_.ShapeOf(u);
    return {s.begin(), s.end()};
  }
  int64_t Elements(UOp u) { return ir::Product(ir::MaxDims(ctx_, *ctx_.ShapeOf(u))); }
  bool Fits(const Value& v) {
    return Elements(v.node) <= kMaxElements && v.bound <= Limit(v.node.dtype());
  }
  UOp Shape(const SymbolicDims& dims) { return ir::ShapeArg(ctx_, ir::Shape(dims)); }
  bool Fixed(UOp d) { return d.Is(Op::CONST); }
  int64_t Most(UOp d) { return static_cast<int64_t>(ir::DimensionBounds(ctx_, d).max); }

  UOp Sum(UOp a, UOp b) {
    if (Fixed(a) && Fixed(b)) return ctx_.Idx(a.const_int() + b.const_int());
    if (a.IsConstInt(0)) return b;
    return b.IsConstInt(0) ? a : ir::Add(ctx_, a, b);
  }
  UOp Product(UOp a, UOp b) {
    if (Fixed(a) && Fixed(b)) return ctx_.Idx(a.const_int() * b.const_int());
    return ir::Mul(ctx_, a, b);
  }
  // A symbolic dimension: a variable, a multiple of it, or its sum with a constant or a variable.
  UOp SymbolicDim() {
    const UOp v = variables_[static_cast<size_t>(Pick(0, 1))];
    const int what = Pick(0, 5);
    if (what == 0) return Sum(v, ctx_.Idx(Pick(1, 2)));
    if (what == 1) return Product(v, ctx_.Idx(2));
    return what == 2 ? Sum(variables_[0], variables_[1]) : v;
  }
  UOp RandomDim() {
    if (!variables_.empty() && Pick(0, 2) == 0) return SymbolicDim();
    return ctx_.Idx(Pick(0, 9) ? Pick(1, 5) : 1);
  }
  // Finds a part [start, start + size) of an axis of symbolic size; false if there is none.
  bool RandomPart(UOp n, UOp& start, UOp& size) {
    for (int attempt = 0; attempt < 4; ++attempt) {
      const UOp from = Pick(0, 1) ? ctx_.Idx(Pick(0, 2)) : Pick(0, 1) ? SymbolicDim() : ctx_.Idx(0);
      UOp part = Pick(0, 2) ? SymbolicDim() : ctx_.Idx(Pick(1, 2));
      if (Pick(0, 2) == 0) part = ir::Sub(ctx_, n, from);
      if (!ir::IsNeverNegative(ctx_, {{part, 1}}) ||
          !ir::IsNeverNegative(ctx_, {{n, 1}, {from, -1}, {part, -1}}))
        continue;
      start = from;
      size = part;
      return true;
    }
    return false;
  }
  SymbolicDims RandomDims() {
    SymbolicDims dims;
    for (int i = Pick(0, 3); i-- > 0;) dims.push_back(RandomDim());
    return dims;
  }

  std::string Device(bool other) const { return Cat(options_.kind, other ? ":1" : ":0"); }

  UOp NewSlot(const SymbolicDims& dims, Dtype dtype, bool other) {
    const UOp p = ir::Param(ctx_, static_cast<int64_t>(out_.slots.size()), dtype, Shape(dims),
                            other ? Device(true) : "");
    const Dims most = ir::MaxDims(ctx_, ir::Shape(dims));
    std::vector<double> values(static_cast<size_t>(ir::Product(most)));
    for (double& v : values) v = Pick(-3, 3);
    out_.slots.push_back(HostArray::Of(dtype, most, values));
    out_.shapes.push_back(dims);
    out_.visible.push_back(VisibleOf(ctx_, dims, out_.variables));
    return p;
  }

  // Slots have only these dtypes.
  Value Stored(Value v) { return v.node.dtype() == Dtype::Bool ? As(v, Dtype::I32) : v; }
  Value As(Value v, Dtype dtype) {
    v.node = ir::Cast(ctx_, v.node, dtype);
    return v;
  }
  Value On(Value v, bool other) {
    if (v.other_device == other) return v;
    v.node = ctx_.Make(Op::COPY, v.node.dtype(), {v.node},
                       ctx_.Data(std::span<const int64_t>(), Device(other)));
    v.other_device = other;
    return v;
  }

  void Output(Value v) {
    v = Stored(v);
    const UOp slot = NewSlot(ShapeOf(v.node), v.node.dtype(), v.other_device);
    roots_.push_back(ir::Store(ctx_, slot, v.node));
  }

  // A part of the same shape at two places of one axis: [x, x + size) and [y, y + size).
  bool Parts(UOp whole, UOp from, UOp& target, UOp& source) {
    SymbolicDims shape = ShapeOf(whole), at(shape.size(), ctx_.Idx(0)), to = at;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (!Fixed(shape[i])) {
        const UOp n = shape[i];
        if (Pick(0, 1) || !RandomPart(n, at[i], shape[i])) continue;
        // The other part is as long, from the start or to the end.
        if (Pick(0, 1)) to[i] = ir::Sub(ctx_, n, shape[i]);
        if (Pick(0, 1)) std::swap(at[i], to[i]);
        target = ir::Shrink(ctx_, whole, Shape(to), Shape(shape));
        source = ir::Shrink(ctx_, from, Shape(at), Shape(shape));
        return true;
      }
      if (shape[i].const_int() < 2) continue;
      if (!variables_.empty() && Pick(0, 2) == 0 && Most(variables_[0]) <= shape[i].const_int()) {
        shape[i] = variables_[0];  // the rest stays as it is
        target = ir::Shrink(ctx_, whole, Shape(at), Shape(shape));
        source = ir::Shrink(ctx_, from, Shape(at), Shape(shape));
        return true;
      }
      const int64_t n = shape[i].const_int(), size = Pick(1, static_cast<int>(n));
      at[i] = ctx_.Idx(Pick(0, static_cast<int>(n - size)));
      to[i] = ctx_.Idx(Pick(0, static_cast<int>(n - size)));
      shape[i] = ctx_.Idx(size);
      for (UOp* begin : {&at[i], &to[i]}) {
        if (!variables_.empty() && Pick(0, 1) && Most(variables_[0]) + size <= n)
          *begin = variables_[0];
      }
      target = ir::Shrink(ctx_, whole, Shape(to), Shape(shape));
      source = ir::Shrink(ctx_, from, Shape(at), Shape(shape));
      return true;
    }
    return false;
  }

  // Perhaps a STORE into an input, perhaps more of them, perhaps reads of what they left.
  void Assign(const Value& p) {
    UOp state = p.node;
    for (int i = Pick(0, 3) - 1; i > 0; --i) {
      // A state that lacks what was stored before, and may not exist in memory at any time.
      if (Pick(0, 9) == 0) state = p.node;
      UOp target = state, value;
      if (UOp source; Pick(0, 1) && Parts(state, Pick(0, 1) ? state : p.node, target, source)) {
        value = Pick(0, 1) ? source : ir::Add(ctx_, source, ctx_.Const(source.dtype(), 1));
      } else {
        std::vector<Value> fits;
        for (const Value& v : pool_) {
          if (v.node.dtype() == p.node.dtype() && v.node != p.node &&
              v.other_device == p.other_device &&
              ir::SameShape(*ctx_.ShapeOf(v.node), *ctx_.ShapeOf(p.node)))
            fits.push_back(v);
        }
        if (fits.empty()) {
          value = ir::Add(ctx_, state, ctx_.Const(state.dtype(), Pick(1, 2)));
        } else {
          value = fits[static_cast<size_t>(Pick(0, static_cast<int>(fits.size()) - 1))].node;
        }
        if (!ShapeOf(p.node).empty() && Pick(0, 3) == 0) {
          Dims axes = {0};
          target = ir::Flip(ctx_, target, axes);
        }
      }
      const UOp store = ir::Store(ctx_, target, value);
      roots_.push_back(store);
      state = ir::After(ctx_, state, {store});
      if (Pick(0, 2)) continue;
      // Something new computed from the new state.
      Value v = Made({state, 100, p.other_device});
      if (v.node && Elements(v.node) <= kMaxElements) Output(v);
    }
    if (state != p.node && Pick(0, 1))
      Output({ir::Add(ctx_, state, Pick(0, 1) ? p.node : state), 100, p.other_device});
  }

  Dims RandomAxes(size_t rank) {
    Dims axes;
    for (size_t i = 0; i < rank; ++i) {
      if (Pick(0, 1)) axes.push_back(static_cast<int64_t>(i));
    }
    return axes;
  }

  Value Moved(const Value& x, UOp node) { return {node, x.bound, x.other_device}; }

  Value Reduced(const Value& x, Op op, const Dims& axes) {
    if (axes.empty() || x.node.dtype() == Dtype::Bool) return {};
    double terms = 1;
    for (int64_t a : axes)
      terms *= static_cast<double>(Most(ShapeOf(x.node)[static_cast<size_t>(a)]));
    Value out = Moved(x, ir::ReduceAxes(ctx_, op, x.node, axes));
    if (op == Op::ADD) out.bound *= terms;
    return out;
  }

  Value Scanned(const Value& x, Op op, const SymbolicDims& dims) {
    if (dims.empty() || x.node.dtype() == Dtype::Bool) return {};
    const int64_t axis = Pick(0, static_cast<int>(dims.size()) - 1);
    Value out = Moved(x, ir::Scan(ctx_, op, x.node, axis));
    if (op == Op::ADD) out.bound *= static_cast<double>(Most(dims[static_cast<size_t>(axis)]));
    return out;
  }

  // These return x after one random op of the kind that the name says. `dims`: the shape of x.
  Value Permuted(const Value& x, const SymbolicDims& dims) {
    Dims order(dims.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    return Moved(x, ir::Permute(ctx_, x.node, order));
  }

  Value Expanded(const Value& x, const SymbolicDims& dims) {
    SymbolicDims out = dims;
    for (UOp& n : out) {
      if (n.IsConstInt(1) && Pick(0, 1)) n = RandomDim();
    }
    if (Pick(0, 1)) out.insert(out.begin(), RandomDim());
    return Moved(x, ir::Expand(ctx_, x.node, Shape(out)));
  }

  Value Padded(const Value& x, const SymbolicDims& dims) {
    SymbolicDims before, out;
    for (UOp n : dims) {
      const int64_t b = Pick(0, 2), a = Pick(0, 2);
      // A variable size stays as it is, or is padded to a fixed one.
      const bool stays = !Fixed(n) && Pick(0, 1);
      if (options_.symbolic && Pick(0, 2) == 0) {  // to a size that varies with its own
        before.push_back(Pick(0, 2) ? ctx_.Idx(b) : SymbolicDim());
        out.push_back(Sum(Sum(n, before.back()), ctx_.Idx(a)));
        continue;
      }
      before.push_back(ctx_.Idx(stays ? 0 : b));
      out.push_back(stays ? n : ctx_.Idx(Most(n) + a + b));
    }
    return Moved(x, ir::Pad(ctx_, x.node, Shape(before), Shape(out)));
  }

  Value Shrunk(const Value& x, const SymbolicDims& dims) {
    SymbolicDims start, out;
    for (UOp n : dims) {
      if (!Fixed(n)) {
        start.push_back(ctx_.Idx(0));
        out.push_back(n);
        if (Pick(0, 1)) RandomPart(n, start.back(), out.back());
        continue;
      }
      const auto size = static_cast<int>(n.const_int());
      const int s = Pick(0, std::max(size - 1, 0));
      start.push_back(ctx_.Idx(s));
      out.push_back(ctx_.Idx(size == 0 ? 0 : Pick(Pick(0, 20) ? 1 : 0, size - s)));
      // A part whose size is a variable.
      if (!variables_.empty() && Pick(0, 2) == 0 && Most(variables_[0]) <= size) {
        start.back() = ctx_.Idx(0);
        out.back() = variables_[0];
      }
      // A part that begins at a variable.
      if (!variables_.empty() && Pick(0, 3) == 0 && Most(variables_[1]) < size) {
        start.back() = variables_[1];
        out.back() = ctx_.Idx(Pick(1, size - static_cast<int>(Most(variables_[1]))));
      }
    }
    return Moved(x, ir::Shrink(ctx_, x.node, Shape(start), Shape(out)));
  }

  Value Compared(const Value& x) {
    const Dtype d = x.node.dtype();
    if (d == Dtype::Bool) return Moved(x, ir::Not(ctx_, x.node));
    const UOp c = ir::Lt(ctx_, x.node, ctx_.Const(d, Pick(-1, 1)));
    if (Pick(0, 2) == 0) return {c, 1, x.other_device};
    return Moved(x, ir::Where(ctx_, c, x.node, ctx_.Const(d, 1)));
  }

  Value WithIota(const Value& x, const SymbolicDims& dims) {
    const Dtype d = x.node.dtype();
    const auto rank = static_cast<int>(dims.size());
    const SymbolicDims shape = rank == 0 ? SymbolicDims{ctx_.Idx(3)} : dims;
    const UOp i = ir::Iota(ctx_, Dtype::I32, Shape(shape), rank == 0 ? 0 : Pick(0, rank - 1));
    if (d == Dtype::Bool || d == Dtype::I8) return {};
    return {ir::Add(ctx_, ir::Cast(ctx_, i, d), x.node), x.bound + 60, x.other_device};
  }

  Value Combined(const Value& x) {
    const Dtype d = x.node.dtype();
    const Value y = Matched(Any(), x);
    if (d == Dtype::Bool || !ir::BroadcastShapes(*ctx_.ShapeOf(x.node), *ctx_.ShapeOf(y.node)))
      return {};
    if (y.bound > Limit(d)) return {};
    const Op ops[] = {Op::ADD, Op::SUB, Op::MAX, Op::MUL};
    const Op op = ops[Pick(0, 3)];
    const double bound = op == Op::MUL   ? x.bound * y.bound
                         : op == Op::MAX ? std::max(x.bound, y.bound)
                                         : x.bound + y.bound;
    return {ir::Alu(ctx_, op, {x.node, y.node}), bound, x.other_device};
  }

  // x after one random op; a value without a node if the op does not apply.
  Value Made(Value x) {
    const SymbolicDims dims = ShapeOf(x.node);
    const Dtype d = x.node.dtype();
    switch (Pick(0, 25)) {
      case 25:
        return Scanned(x, Pick(0, 2) ? Op::ADD : Op::MAX, dims);
      case 0:
        return Permuted(x, dims);
      case 1:
        return Reshaped(x, dims);
      case 2:
        return Expanded(x, dims);
      case 3:
        return Padded(x, dims);
      case 4:
        return Shrunk(x, dims);
      case 5:
        return Moved(x, ir::Flip(ctx_, x.node, RandomAxes(dims.size())));
      case 6:
      case 7:
      case 8: {
        const Op op = Pick(0, 2) ? Op::ADD : Op::MAX;
        return Reduced(x, op, RandomAxes(dims.size()));
      }
      case 9: {
        Dims all(dims.size());
        std::iota(all.begin(), all.end(), 0);
        return Reduced(x, Op::ADD, all);
      }
      case 10:
        if (d == Dtype::Bool) return {};
        return {ir::Add(ctx_, x.node, ctx_.Const(d, Pick(-2, 2))), x.bound + 2, x.other_device};
      case 11:
        if (d == Dtype::Bool) return {};
        return Moved(x, ir::Alu(ctx_, Op::MAX, {x.node, ctx_.Const(d, 0)}));
      case 12:
        return Moved(x, ctx_.Make(Op::CONTIGUOUS, d, {x.node}));
      case 13:
        return Compared(x);
      case 14:
        return WithIota(x, dims);
      case 15: {
        const Dtype to[] = {Dtype::I32, Dtype::F64, Dtype::F32, Dtype::I8};
        const Dtype t = to[Pick(0, 3)];
        return x.bound > Limit(t) ? Value{} : As(x, t);
      }
      case 16: {
        Value y = Matched(Any(), x);
        if (!ir::SameShape(*ctx_.ShapeOf(x.node), *ctx_.ShapeOf(y.node))) y = x;
        return {ctx_.Make(Op::STACK, d, {x.node, y.node}), std::max(x.bound, y.bound),
                x.other_device};
      }
      case 17:
        return Bits(x);
      case 18:
        if (options_.devices) return On(x, !x.other_device);
        return options_.symbolic ? Joined(x) : Value{};
      case 19:
      case 20:
        return Attended(x);
      default:
        return Combined(x);
    }
  }

  // x and another value, concatenated along an axis.
  Value Joined(const Value& x) {
    const SymbolicDims dims = ShapeOf(x.node);
    const Value y = Matched(Any(), x);
    const SymbolicDims others = ShapeOf(y.node);
    if (dims.empty() || others.size() != dims.size()) return {};
    const auto axis = static_cast<size_t>(Pick(0, static_cast<int>(dims.size()) - 1));
    SymbolicDims whole = dims, none(dims.size(), ctx_.Idx(0)), at = none;
    whole[axis] = Sum(dims[axis], others[axis]);
    at[axis] = dims[axis];
    for (size_t i = 0; i < dims.size(); ++i) {
      if (i != axis && dims[i] != others[i]) return {};
    }
    const UOp shape = Shape(whole);
    const UOp position = ir::Iota(ctx_, Dtype::I32, shape, static_cast<int64_t>(axis));
    const UOp first = ir::Lt(ctx_, position, ir::Cast(ctx_, dims[axis], Dtype::I32));
    return {ir::Where(ctx_, first, ir::Pad(ctx_, x.node, Shape(none), shape),
                      ir::Pad(ctx_, y.node, Shape(at), shape)),
            std::max(x.bound, y.bound), x.other_device};
  }

  // An expensive function of x.
  Value Bits(const Value& x) {
    const UOp bits = ir::Alu(ctx_, Op::THREEFRY,
                             {ir::Cast(ctx_, ir::Cast(ctx_, x.node, Dtype::I32), Dtype::U64),
                              ctx_.Int(Dtype::U64, Pick(0, 99))});
    const UOp few = ir::Alu(ctx_, Op::AND, {bits, ctx_.Int(Dtype::U64, 7)});
    return {ir::Cast(ctx_, few, Dtype::I32), 7, x.other_device};
  }

  // The last axis and another, in either order, as one, where both have fixed sizes.
  UOp SideBySide(UOp x) {
    const SymbolicDims shape = ShapeOf(x);
    const auto rank = static_cast<int64_t>(shape.size());
    Dims order;
    for (int64_t a = 0; a < rank; ++a) order.push_back(a);
    const int64_t moved = Pick(0, static_cast<int>(rank) - 2);
    order.erase(order.begin() + moved);
    order.insert(order.end() - Pick(0, 1), moved);
    SymbolicDims merged;
    for (int64_t a : order) merged.push_back(shape[static_cast<size_t>(a)]);
    const UOp inner = merged.back();
    merged.pop_back();
    if (!Fixed(inner) || !Fixed(merged.back())) return x;
    merged.back() = ctx_.Idx(merged.back().const_int() * inner.const_int());
    return ir::Reshape(ctx_, ir::Permute(ctx_, x, order), Shape(merged));
  }

  // A graph like attention: scores of every row of x against keys, an expensive function of the
  // scores, and a sum of values weighted by it.
  Value Attended(const Value& x) {
    SymbolicDims shape = ShapeOf(x.node);
    if (shape.empty() || x.node.dtype() == Dtype::Bool || x.bound > 100) return {};
    auto numbers = [&](UOp rows, UOp columns) {
      const UOp whole = Shape({rows, columns});
      const UOp i = ir::Iota(ctx_, Dtype::I32, whole, 0), j = ir::Iota(ctx_, Dtype::I32, whole, 1);
      return Bits({ir::Add(ctx_, ir::Mul(ctx_, i, ctx_.Int(Dtype::I32, 8)), j), 100, false}).node;
    };
    const UOp depth = shape.back(), keys = RandomDim(), width = RandomDim();
    const auto last = static_cast<int64_t>(shape.size());
    auto sum = [&](UOp y) { return ir::ReduceAxes(ctx_, Op::ADD, y, Dims{last}); };
    auto rows_of = [&](UOp y, UOp size) {
      shape.back() = ctx_.Idx(1);
      SymbolicDims out = shape;
      out.push_back(size);
      return ir::Reshape(ctx_, y, Shape(out));
    };
    const UOp rows = rows_of(As(x, Dtype::I32).node, depth);
    Value at = {sum(ir::Mul(ctx_, rows, numbers(keys, depth))), 0, x.other_device};
    shape.back() = keys;
    at.node = ir::Reshape(ctx_, at.node, Shape(shape));
    const Dims over = {last - 1};
    if (Pick(0, 1)) at.node = ir::Sub(ctx_, at.node, ir::ReduceAxes(ctx_, Op::MAX, at.node, over));
    at = Bits(at);
    if (Pick(0, 2)) {
      const UOp all = ir::ReduceAxes(ctx_, Op::ADD, at.node, over);
      at.node = ir::Alu(ctx_, Pick(0, 1) ? Op::ADD : Op::MUL, {at.node, all});
    }
    if (Pick(0, 3) == 0) at.node = ir::Flip(ctx_, at.node, over);
    if (Pick(0, 3) == 0) Output(at);
    at.node = sum(ir::Mul(ctx_, rows_of(at.node, keys), numbers(width, keys)));
    shape.back() = width;
    at.node = ir::Reshape(ctx_, at.node, Shape(shape));
    at.bound = 7 * (1 + 7 * 5) * 7 * 5;
    if (last > 1 && Pick(0, 1)) at.node = SideBySide(at.node);
    return Pick(0, 1) ? Bits(at) : at;
  }

  // y with the dtype and device of x, so that both can be operands of one op.
  Value Matched(Value y, const Value& x) {
    if (y.bound > Limit(x.node.dtype())) y = x;
    return On(As(y, x.node.dtype()), x.other_device);
  }

  // Merges two axes, or splits off a factor, or adds ones.
  Value Reshaped(const Value& x, SymbolicDims out) {
    const auto rank = static_cast<int>(out.size());
    if (rank >= 2 && Pick(0, 1)) {
      const auto i = static_cast<size_t>(Pick(0, rank - 2));
      out[i] = Product(out[i], out[i + 1]);
      out.erase(out.begin() + static_cast<int>(i) + 1);
    } else if (rank >= 1 && Pick(0, 1)) {
      const auto i = static_cast<size_t>(Pick(0, rank - 1));
      if (out[i].Is(Op::MUL)) {
        const UOp n = out[i];
        out[i] = n.src(0);
        out.insert(out.begin() + static_cast<int>(i) + Pick(0, 1), n.src(1));
      }
      for (int64_t f : {2, 3, 5}) {
        if (!Fixed(out[i]) || out[i].const_int() % f != 0) continue;
        out[i] = ctx_.Idx(out[i].const_int() / f);
        out.insert(out.begin() + static_cast<int>(i), ctx_.Idx(f));
        break;
      }
    } else {
      out.insert(out.begin() + Pick(0, rank), ctx_.Idx(1));
    }
    return Moved(x, ir::Reshape(ctx_, x.node, Shape(out)));
  }

  UOpContext& ctx_;
  std::mt19937_64 random_;
  const GeneratorOptions options_;
  GeneratedGraph out_;
  std::vector<Value> pool_, inputs_;
  std::vector<UOp> roots_, variables_;
};

}  // namespace

GeneratedGraph GenerateGraph(UOpContext& ctx, uint64_t seed, const GeneratorOptions& options) {
  return Generator(ctx, seed, options).Run();
}

std::vector<GeneratedGraph> WithOtherVariables(UOpContext& ctx, const GeneratedGraph& g) {
  std::vector<GeneratedGraph> out = {g};
  for (const size_t end : {size_t{0}, size_t{1}}) {
    if (g.variables.empty()) break;
    GeneratedGraph other = g;
    for (UOp v : ir::Variables(ctx, g.sink)) other.variables[std::string(v.text())] = v.ints()[end];
    for (size_t i = 0; i < g.shapes.size(); ++i)
      other.visible[i] = VisibleOf(ctx, ir::Shape(g.shapes[i]), other.variables);
    out.push_back(std::move(other));
  }
  return out;
}

}  // namespace uopd::test
