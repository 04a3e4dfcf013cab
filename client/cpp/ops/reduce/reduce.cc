// SPDX-License-Identifier: MIT
// Reductions, matrix products, and operations made of them: softmax, losses.
#include <algorithm>

#include "client/cpp/graph/build.h"
#include "client/cpp/ops/common.h"
#include "client/cpp/ops/sized.h"
#include "core/ir/build.h"

namespace uopd::client {

using ir::Op;

namespace {

// The axes, counted from the front and sorted; all axes if none are given. Nullopt if an axis does
// not exist or comes twice. A tensor without axes takes 0 or -1, and none is left of it.
std::optional<Dims> Normal(Dims axes, int64_t rank) {
  if (rank == 0 && axes.size() == 1 && (axes[0] == 0 || axes[0] == -1)) return Dims();
  if (axes.empty()) {
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
    return axes;
  }
  for (int64_t& a : axes) {
    const auto axis = Axis(a, rank);
    if (!axis) return std::nullopt;
    a = *axis;
  }
  std::sort(axes.begin(), axes.end());
  return std::adjacent_find(axes.begin(), axes.end()) == axes.end() ? std::optional(axes)
                                                                    : std::nullopt;
}

Tensor Reduced(const Tensor& t, Op op, Dims axes, bool keep, std::string_view what, Site site) {
  if (!t.status().ok()) return t;
  const auto normal = Normal(axes, t.rank());
  if (!normal) return Wrong(t, what, site, Cat("axes ", Text(axes), " of shape ", Text(t.dims())));
  if (normal->empty()) return Another(t);
  Tensor out = Made(t, ir::ReduceAxes(Ctx(t), op, Value(t), *normal), what, site);
  if (keep || !out.status().ok()) return out;
  const ir::Shape shape = ShapeOf(t);
  ir::SymbolicDims left;
  for (int64_t i = 0; i < t.rank(); ++i) {
    if (!std::binary_search(normal->begin(), normal->end(), i))
      left.push_back(shape[static_cast<size_t>(i)]);
  }
  return ReshapeTo(out, left, what, site);
}

// Sums of small integers and bools are i32; sums of floats under 32 bits are computed in f32 and
// rounded once.
Dtype SumDtype(Dtype d) {
  if (ir::IsFloat(d)) return ir::Bits(d) < 32 ? Dtype::F32 : d;
  if (ir::Bits(d) >= 32) return d;
  return ir::IsUnsigned(d) ? Dtype::U32 : Dtype::I32;
}

// The number of elements that each result is made of, minus `correction`, but at least 0; a float.
Tensor Number(const Tensor& t, const Dims& axes, int64_t correction, Dtype dtype, Site site) {
  ir::UOpContext& ctx = Ctx(t);
  ir::UOp n = ctx.Idx(1);
  int64_t fixed = 1;
  bool symbolic = false;
  for (int64_t a : axes) {
    const ir::UOp d = ShapeOf(t)[static_cast<size_t>(a)];
    if (d.Is(Op::CONST)) {
      fixed *= d.const_int();
    } else {
      n = symbolic ? ir::Mul(ctx, n, d) : d;
      symbolic = true;
    }
  }
  if (!symbolic) {
    return ScalarLike(t, dtype, static_cast<double>(std::max<int64_t>(0, fixed - correction)));
  }
  const Tensor count = Made(t, ir::Cast(ctx, n, dtype), "count", site);
  return (count * static_cast<double>(fixed) - static_cast<double>(correction)).Maximum(0.0);
}

}  // namespace

Tensor Tensor::Sum(Dims axes, bool keep, Site site) const {
  if (!status().ok()) return *this;
  const Dtype in = SumDtype(dtype());
  const Tensor out = Reduced(As(*this, in, site), Op::ADD, axes, keep, "Sum", site);
  return ir::IsFloat(dtype()) ? As(out, dtype(), site) : out;
}

Tensor SumOfProducts(const Tensor& a, const Tensor& b, const Dims& axes, Site site) {
  const Dtype dtype = ir::Promote(a.dtype(), b.dtype()), wide = SumDtype(dtype);
  if (!ir::IsFloat(dtype) || wide == dtype) return (Operand(a, site) * b).Sum(axes, false, site);
  return As((Operand(As(a, wide, site), site) * As(b, wide, site)).Sum(axes, false, site), dtype,
            site);
}

Tensor Tensor::Prod(Dims axes, bool keep, Site site) const {
  if (!status().ok()) return *this;
  const Dtype in = SumDtype(dtype());
  const Tensor out = Reduced(As(*this, in, site), Op::MUL, axes, keep, "Prod", site);
  return ir::IsFloat(dtype()) ? As(out, dtype(), site) : out;
}

Tensor Tensor::Max(Dims axes, bool keep, Site site) const {
  return Reduced(*this, Op::MAX, axes, keep, "Max", site);
}

Tensor Tensor::Min(Dims axes, bool keep, Site site) const {
  if (!status().ok()) return *this;
  if (ir::IsFloat(dtype())) return Reduced(Neg(site), Op::MAX, axes, keep, "Min", site).Neg(site);
  return Reduced(Not(site), Op::MAX, axes, keep, "Min", site).Not(site);
}

Tensor Tensor::Mean(Dims axes, bool keep, Site site) const {
  if (!status().ok()) return *this;
  const auto normal = Normal(axes, rank());
  if (!normal)
    return Wrong(*this, "Mean", site, Cat("axes ", Text(axes), " of shape ", Text(dims())));
  // Narrow floats stay wide until the division, or their sum could overflow.
  const Dtype out = ir::IsFloat(dtype()) ? dtype() : Dtype::F32;
  const Dtype wide = SumDtype(out);
  const Tensor sum = Reduced(As(*this, wide, site), Op::ADD, axes, keep, "Mean", site);
  return As(sum / Number(*this, *normal, 0, wide, site), out, site);
}

std::pair<Tensor, Tensor> Tensor::VarMean(Dims axes, bool keep, int64_t correction,
                                          Site site) const {
  const Tensor kept = Mean(axes, true, site);
  if (!kept.status().ok()) return {kept, kept};
  const Dims normal = *Normal(axes, rank());
  // Narrow floats stay wide until the division, as in Mean.
  const Dtype wide = SumDtype(kept.dtype());
  const Tensor off = Operand(As(*this, kept.dtype(), site), site) - kept;
  const Tensor squares = As(off, wide, site).Square(site);
  const Tensor sum = Reduced(squares, Op::ADD, axes, keep, "Var", site);
  const Tensor var = As(sum / Number(*this, normal, correction, wide, site), kept.dtype(), site);
  Tensor mean = kept;
  if (!keep) {
    for (auto it = normal.rbegin(); it != normal.rend(); ++it) mean = mean.Squeeze(*it, site);
  }
  return {var, mean};
}

Tensor Tensor::Var(Dims axes, bool keep, int64_t correction, Site site) const {
  return VarMean(std::move(axes), keep, correction, site).first;
}

Tensor Tensor::Std(Dims axes, bool keep, int64_t correction, Site site) const {
  return Var(std::move(axes), keep, correction, site).Sqrt(site);
}

Tensor Tensor::Argmax(int64_t axis, bool keep, Site site) const {
  if (!status().ok()) return *this;
  if (auto only =
          AlongNoAxis(*this, axis, site, [&](const Tensor& t) { return t.Argmax(0, true, site); }))
    return *only;
  const auto a = Axis(axis, rank());
  if (!a || dims()[static_cast<size_t>(*a)] == 0)
    return Wrong(*this, "Argmax", site, Cat("axis ", axis, " of shape ", Text(dims())));
  if (is_symbolic()) {
    // No element of a box beyond the tensor comes first.
    const Tensor least = fn::Least(*this, site);
    ir::SymbolicDims left = SizesOf(*this);
    if (keep)
      left[static_cast<size_t>(*a)] = Ctx(*this).Idx(1);
    else
      left.erase(left.begin() + *a);
    return Cornered(Boxed(*this, site, &least).Argmax(*a, keep, site), left, site);
  }
  const int64_t n = dims()[static_cast<size_t>(*a)];
  Tensor hit = *this == Max({*a}, true, site);
  if (ir::IsFloat(dtype()))
    hit = hit | (*this != *this);  // if any element is a NaN, it is the maximum
  // Of all hits the first one has the largest distance from the end.
  Dims column(dims().size(), 1);
  column[static_cast<size_t>(*a)] = n;
  const Tensor distance = n - IotaLike(*this, n, PositionDtype(n)).Reshape(column, site);
  return n - Where(hit, distance, 0).Max({*a}, keep, site);
}

Tensor Tensor::Argmin(int64_t axis, bool keep, Site site) const {
  if (!status().ok()) return *this;
  // As in Min, by an operation that reverses the order.
  if (!ir::IsFloat(dtype())) return Not(site).Argmax(axis, keep, site);
  return Neg(site).Argmax(axis, keep, site);
}

Tensor Tensor::MatMul(Operand operand) const {
  const Site site = operand.site();
  if (!status().ok())
    return state_ != nullptr ? *this : Poisoned(nullptr, Located("MatMul", site, status()));
  if (operand.tensor() == nullptr)
    return Wrong(*this, "MatMul", site, "the right operand is a number");
  const Tensor& b = *operand.tensor();
  if (!b.status().ok())
    return b.state() != nullptr
               ? b
               : Wrong(*this, "MatMul", site, "the right operand is an empty tensor");
  auto mismatch = [&] {
    return Wrong(*this, "MatMul", site, Cat("shapes ", Text(dims()), " and ", Text(b.dims())));
  };
  if (rank() == 0 || b.rank() == 0) return mismatch();
  const int64_t inner = dims().back(),
                rows_of_b = b.rank() == 1 ? b.dims()[0] : b.dims()[b.dims().size() - 2];
  if (inner != rows_of_b) return mismatch();
  // The product of [..., n, 1, k] and [..., 1, m, k], summed over k.
  const auto as_row = [&](const Tensor& v) {
    return v.is_symbolic() ? v.Unsqueeze(0, site).Unsqueeze(0, site)
                           : v.Reshape({1, 1, inner}, site);
  };
  const Tensor left = rank() == 1 ? as_row(*this) : Unsqueeze(-2, site);
  const Tensor right = b.rank() == 1 ? as_row(b) : b.Transpose(-2, -1, site).Unsqueeze(-3, site);
  Tensor out = SumOfProducts(left, right, {-1}, site);
  if (!out.status().ok()) return out;
  if (ir::IsInt(left.dtype()) && ir::IsInt(right.dtype()))
    out = out.Cast(ir::Promote(left.dtype(), right.dtype()), site);
  if (b.rank() == 1) out = out.Squeeze(-1, site);
  if (rank() == 1) out = out.Squeeze(b.rank() == 1 ? -1 : -2, site);
  return out;
}

Tensor Tensor::Softmax(int64_t axis, Site site) const {
  return fn::InWide("Softmax", *this, site, [&](const Tensor& x) {
    const Tensor e = fn::ExpOfOffset(Operand(x, site) - x.Max({axis}, true, site).Detach(site));
    return e / e.Sum({axis}, true, site);
  });
}

Tensor Tensor::LogSoftmax(int64_t axis, Site site) const {
  return fn::InWide("LogSoftmax", *this, site, [&](const Tensor& x) {
    const Tensor off = Operand(x, site) - x.Max({axis}, true, site).Detach(site);
    return off - fn::ExpOfOffset(off).Sum({axis}, true, site).Log(site);
  });
}

Tensor Tensor::CrossEntropy(const Tensor& labels, Site site) const {
  if (!status().ok()) return *this;
  if (!labels.status().ok())
    return labels.state() != nullptr
               ? labels
               : Wrong(*this, "CrossEntropy", site, "labels are an empty tensor");
  Dims rows = dims();
  if (rank() == 0 || (rows.pop_back(), labels.dims() != rows)) {
    return Wrong(
        *this, "CrossEntropy", site,
        Cat("labels of shape ", Text(labels.dims()), " for scores of shape ", Text(dims())));
  }
  // The label's value is chosen by WHERE instead of multiplying by 0 or 1, so that the -inf of
  // another, impossible class does not count.
  const Tensor hot = labels.OneHot(dims().back(), Dtype::Bool, site);
  const Tensor log = LogSoftmax(-1, site);
  return Where({hot, site}, log, ScalarLike(log, log.dtype(), 0))
      .Sum({-1}, false, site)
      .Mean({}, false, site)
      .Neg(site);
}

}  // namespace uopd::client
