// SPDX-License-Identifier: MIT
// Reductions, running ones, and positions of extremes.
#include <algorithm>
#include <limits>

#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"
#include "uopd/movement.h"
#include "uopd/reductions.h"

namespace uopd::client::onnx {
namespace {

// What a reduction does to each element, over axes, and to the result.
struct Reduction {
  std::string_view name;
  Tensor (*before)(const Tensor&);
  Tensor (*over)(const Tensor&, const Dims& axes);  // keeps the axes
  Tensor (*after)(const Tensor&);
};

Tensor Unchanged(const Tensor& x) { return x; }
Tensor SumOver(const Tensor& x, const Dims& axes) { return x.Sum(axes, true); }

// The sum of no elements and the like have their own dtype and value for each reduction, so they
// are left to the function of tensors.
absl::Status RunReduction(Call& c, const Reduction& r, int axes_are_input) {
  Dims axes;
  if (c.opset() >= axes_are_input) {
    if (c.Has(1)) {
      UOPD_ASSIGN(axes, c.Ints(1));
    }
  } else {
    if (c.inputs() > 1) return c.Wrong("in this operator set the axes are an attribute");
    axes = c.IntList("axes");
  }
  const bool keep = c.Int("keepdims", 1) != 0;
  const bool none_if_empty = c.opset() >= axes_are_input && c.Int("noop_with_empty_axes", 0) != 0;
  UOPD_ASSIGN(axes, c.Axes(std::move(axes), c.Rank(0)));
  Tensor x = c.X(0);
  // Sums in narrow floats lose digits, so they are computed in f32 and rounded once.
  const bool narrow = ir::IsSmallFloat(x.dtype());
  x = r.before(narrow ? x.Cast(Dtype::F32) : x);
  const bool all = axes.empty();
  if (all)
    for (int64_t i = 0; i < c.Rank(0); ++i) axes.push_back(i);
  if (!(all && none_if_empty) && !axes.empty()) {
    x = r.over(x, axes);
    if (x.status().ok() && !keep) {
      Dims dims;
      for (int64_t i = 0; i < c.Rank(0); ++i)
        if (std::ranges::find(axes, i) == axes.end())
          dims.push_back(c.Shape(0)[static_cast<size_t>(i)]);
      x = x.Reshape(dims);
    }
  }
  return c.OutAs(0, r.after(x));
}

// The axes are an input from operator set `input_since` on.
OpRow Reduce(const Reduction& r, int input_since = 18) {
  return {r.name, 1, 1, 2, [r, input_since](Call& c) { return RunReduction(c, r, input_since); }};
}

Tensor MaxOver(const Tensor& x, const Dims& axes) {
  if (x.dtype() == Dtype::Bool) return x.Cast(Dtype::U8).Max(axes, true);
  return x.Max(axes, true);
}
Tensor MinOver(const Tensor& x, const Dims& axes) {
  if (x.dtype() == Dtype::Bool) return x.Cast(Dtype::U8).Min(axes, true);
  return x.Min(axes, true);
}

// The extreme of an empty set is the identity of the reduction.
Tensor OfNone(const Tensor& x, const Dims& axes, bool largest,
              Tensor (*f)(const Tensor&, const Dims&)) {
  if (x.size() != 0) return f(x, axes);
  Dims dims = x.dims();
  for (const int64_t a : axes) dims[static_cast<size_t>(a)] = 1;
  if (ir::Product(dims) == 0) return fn::ZerosLike(x).Sum(axes, true);
  const Tensor zeros = x.Sum(axes, true).Cast(x.dtype());
  if (ir::IsFloat(x.dtype())) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return fn::FullLike(zeros, largest ? -kInfinity : kInfinity);
  }
  const ir::IntRange range = ir::RangeOf(x.dtype());
  if (x.dtype() == Dtype::U64 && !largest) return zeros.Not();
  return fn::FullLike(zeros, static_cast<int64_t>(largest ? range.min : range.max));
}

absl::Status RunArg(Call& c, bool largest) {
  UOPD_ASSIGN(const int64_t axis, c.Axis(c.Int("axis", 0), c.Rank(0)));
  const bool keep = c.Int("keepdims", 1) != 0, last = c.Int("select_last_index", 0) != 0;
  Tensor x = c.X(0);
  if (last) x = x.Flip({axis});
  Tensor at = (largest ? x.Argmax(axis, keep) : x.Argmin(axis, keep)).Cast(Dtype::I64);
  if (last) at = (c.Shape(0)[static_cast<size_t>(axis)] - 1) - at;
  return c.Out(at);
}

absl::Status RunTopK(Call& c) {
  int64_t k = 0;
  if (c.opset() < 10) {
    k = c.Int("k", -1);
  } else {
    if (!c.Has(1)) return c.Wrong("the input K is missing");
    UOPD_ASSIGN(k, c.OneInt(1));
  }
  UOPD_ASSIGN(const int64_t axis, c.Axis(c.Int("axis", -1), c.Rank(0)));
  const bool largest = c.opset() < 11 || c.Int("largest", 1) != 0;
  if (c.opset() >= 11) c.Int("sorted", 1);  // sorted is one of the orders that 0 allows
  if (k < 0 || k > c.Shape(0)[static_cast<size_t>(axis)])
    return c.Wrong(Cat("K is ", k, "; the axis has ", c.Shape(0)[static_cast<size_t>(axis)]));
  const auto [values, at] = c.X(0).TopK(k, axis, largest);
  UOPD_TRY(c.OutAs(0, values));
  return c.Out(at.Cast(Dtype::I64), 1);
}

// Running sums and products: reversed, or without each element itself.
absl::Status RunCumulative(Call& c, double first, Tensor (*f)(const Tensor&, int64_t)) {
  UOPD_ASSIGN(int64_t axis, c.OneInt(1));
  UOPD_ASSIGN(axis, c.Axis(axis, c.Rank(0)));
  const bool reverse = c.Int("reverse", 0) != 0, exclusive = c.Int("exclusive", 0) != 0;
  Tensor x = c.X(0);
  if (reverse) x = x.Flip({axis});
  if (exclusive && c.Shape(0)[static_cast<size_t>(axis)] > 0) {
    Dims before(static_cast<size_t>(c.Rank(0)), 0), after = before;
    before[static_cast<size_t>(axis)] = 1;
    after[static_cast<size_t>(axis)] = -1;
    x = fn::Pad(x, before, after, fn::PadMode::kConstant, first);
  }
  x = f(x, axis);
  if (reverse) x = x.Flip({axis});
  return c.OutAs(0, x);
}

}  // namespace

OpRows ReductionOps() {
  return {
      Reduce({"ReduceSum", Unchanged, SumOver, Unchanged}, 13),
      Reduce({"ReduceMean", Unchanged,
              [](const Tensor& x, const Dims& axes) {
                if (ir::IsFloat(x.dtype())) return x.Mean(axes, true);
                return x.Cast(Dtype::F64).Mean(axes, true);
              },
              Unchanged}),
      Reduce({"ReduceMax", Unchanged,
              [](const Tensor& x, const Dims& axes) { return OfNone(x, axes, true, MaxOver); },
              Unchanged}),
      Reduce({"ReduceMin", Unchanged,
              [](const Tensor& x, const Dims& axes) { return OfNone(x, axes, false, MinOver); },
              Unchanged}),
      Reduce({"ReduceProd", Unchanged,
              [](const Tensor& x, const Dims& axes) { return x.Prod(axes, true); }, Unchanged}),
      Reduce({"ReduceL1", [](const Tensor& x) { return x.Abs(); }, SumOver, Unchanged}),
      Reduce({"ReduceL2",
              [](const Tensor& x) {
                return (ir::IsFloat(x.dtype()) ? x : x.Cast(Dtype::F64)).Square();
              },
              SumOver, [](const Tensor& x) { return x.Sqrt(); }}),
      Reduce({"ReduceSumSquare", [](const Tensor& x) { return x.Square(); }, SumOver, Unchanged}),
      Reduce({"ReduceLogSum",
              [](const Tensor& x) { return ir::IsFloat(x.dtype()) ? x : x.Cast(Dtype::F64); },
              SumOver, [](const Tensor& x) { return x.Log(); }}),
      Reduce({"ReduceLogSumExp",
              [](const Tensor& x) { return ir::IsFloat(x.dtype()) ? x : x.Cast(Dtype::F64); },
              [](const Tensor& x, const Dims& axes) {
                if (x.size() == 0) return x.Sum(axes, true).Log();
                return fn::LogSumExp(x, axes, true);
              },
              Unchanged}),
      {"ArgMax", 1, 1, 1, [](Call& c) { return RunArg(c, true); }},
      {"ArgMin", 1, 1, 1, [](Call& c) { return RunArg(c, false); }},
      {"TopK", 1, 1, 2, RunTopK},
      {"CumSum", 11, 2, 2,
       [](Call& c) {
         return RunCumulative(c, 0, [](const Tensor& x, int64_t a) { return x.CumSum(a); });
       }},
      {"CumProd", 26, 2, 2,
       [](Call& c) {
         return RunCumulative(c, 1, [](const Tensor& x, int64_t a) { return fn::CumProd(x, a); });
       }},
  };
}

}  // namespace uopd::client::onnx
