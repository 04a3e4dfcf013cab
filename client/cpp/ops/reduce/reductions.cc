// SPDX-License-Identifier: MIT
#include "uopd/reductions.h"

#include <limits>
#include <string_view>

#include "client/cpp/ops/common.h"
#include "client/cpp/ops/index/pick.h"
#include "client/cpp/ops/sized.h"
#include "core/ir/build.h"
#include "uopd/math.h"

namespace uopd::client::fn {
namespace {

// x, or 0 where it is infinite: what is subtracted before exp, so that infinity minus itself is not
// taken.
Tensor Finite(const Tensor& x) { return Where(IsFinite(x), x, Like(x, 0)); }

// The axis counted from the front, or the error.
std::pair<int64_t, std::optional<Tensor>> Along(std::string_view what, const Tensor& x,
                                                int64_t axis, Site site) {
  if (auto error = FirstError(what, {&x}, site)) return {0, error};
  const auto a = Axis(axis, x.rank());
  if (!a) return {0, Wrong(x, what, site, Cat("axis ", axis, " of shape ", Text(x.dims())))};
  return {*a, std::nullopt};
}

bool IsBoxed(const Tensor& x) { return x.status().ok() && x.is_symbolic(); }

// Both results of f, which are in the shape of x, as InBox has one.
template <class F>
std::pair<Tensor, Tensor> BothInBox(const Tensor& x, Site site, F f) {
  const auto [a, b] = f(Boxed(x, site));
  return {Cornered(a, SizesOf(x), site), Cornered(b, SizesOf(x), site)};
}

// The element at q of the way along a sorted axis whose size is made of variables, as Quantile
// takes it.
Tensor AlongSorted(const Tensor& sorted, double q, int64_t axis, Site site) {
  const Tensor last = sorted.Length(axis, site) - 1;
  const Tensor at = last.Cast(Dtype::F64, site) * q;
  const Tensor low = at.Cast(Dtype::I64, site);  // of what is not negative
  auto element = [&](const Tensor& position) {
    return sorted.IndexSelect(axis, position.Reshape({1}, site), site);
  };
  const Tensor share = (at - low.Cast(Dtype::F64, site)).Cast(sorted.dtype(), site);
  const Tensor between = Lerp(element(low), element((low + 1).Minimum(last)), share);
  const Tensor most = element(last);
  return Where(most.IsNan(site), most, Where(share == 0.0, element(low), between));
}

std::pair<Tensor, Tensor> RunningMax(const Tensor& x, int64_t axis, std::string_view what,
                                     Site site) {
  const Tensor t = x.dtype() == Dtype::Bool ? x.Cast(Dtype::U8, site) : x;
  const Tensor y = Made(t, ir::Scan(Ctx(t), ir::Op::MAX, Value(t), axis), what, site);
  if (!y.status().ok()) return {y, y};
  // An element that is larger than all before it, or the first NaN: the last of them is the
  // position.
  const int64_t n = t.dims()[static_cast<size_t>(axis)];
  const Tensor place = IotaAlong(t, axis, PositionDtype(n));
  Tensor at = place.Expand(t.dims(), site);
  if (n > 1) {
    const Tensor before = y.Narrow(axis, 0, n - 1, site), here = t.Narrow(axis, 1, n - 1, site);
    Tensor more = before < here;
    if (ir::IsFloat(t.dtype())) more = more | (here.IsNan(site) & before.IsNan(site).Not(site));
    Dims none(t.dims().size(), 0), first = none;
    first[static_cast<size_t>(axis)] = 1;
    at = Where(more.Pad(first, none, 0, site), place, 0);
  }
  const Tensor index = Made(at, ir::Scan(Ctx(at), ir::Op::MAX, Value(at), axis), what, site);
  return {y.Cast(x.dtype(), site), index};
}

}  // namespace

Tensor Any(const Tensor& x, const Dims& axes, bool keep, Site site) {
  if (auto error = FirstError("Any", {&x}, site)) return *error;
  return x.Cast(Dtype::Bool, site).Max(axes, keep, site);
}
Tensor All(const Tensor& x, const Dims& axes, bool keep, Site site) {
  if (auto error = FirstError("All", {&x}, site)) return *error;
  return x.Cast(Dtype::Bool, site).Min(axes, keep, site);
}
Tensor CountNonzero(const Tensor& x, const Dims& axes, bool keep, Site site) {
  if (auto error = FirstError("CountNonzero", {&x}, site)) return *error;
  return x.Cast(Dtype::Bool, site).Cast(PositionDtype(x.size()), site).Sum(axes, keep, site);
}

Tensor LogSumExp(const Tensor& x, const Dims& axes, bool keep, Site site) {
  return InWide("LogSumExp", x, site, [&](const Tensor& v) {
    Tensor kept = v.Max(axes, true, site);
    if (!kept.status().ok()) return kept;
    const Tensor most = Finite(kept).Detach();
    const Tensor sum = ExpOfOffset(v - most).Sum(axes, true, site);
    Tensor out = sum.Log() + most;
    // The sum with size 1 along the axes has the right elements: only its shape may be too long.
    if (keep) return out;
    return out.Sum(axes, false, site);
  });
}

Tensor CumProd(const Tensor& x, int64_t axis, Site site) {
  if (IsBoxed(x)) return InBox(x, site, [&](const Tensor& t) { return CumProd(t, axis, site); });
  if (auto only = AlongNoAxis(x, axis, site, [&](const Tensor& t) { return CumProd(t, 0, site); }))
    return *only;
  const auto [a, error] = Along("CumProd", x, axis, site);
  if (error) return *error;
  // Takes the dtype from a Prod that is never realised. Narrow floats are rounded once.
  const Dtype out = x.Prod({a}, false, site).dtype();
  const Tensor t = ir::IsFloat(out) ? Wide(x, site) : x.Cast(out, site);
  return Made(t, ir::Scan(Ctx(t), ir::Op::MUL, Value(t), a), "CumProd", site).Cast(out, site);
}

std::pair<Tensor, Tensor> CumMax(const Tensor& x, int64_t axis, Site site) {
  if (IsBoxed(x)) return BothInBox(x, site, [&](const Tensor& t) { return CumMax(t, axis, site); });
  if (auto only = AlongNoAxis(x, axis, site, [&](const Tensor& t) { return CumMax(t, 0, site); }))
    return *only;
  const auto [a, error] = Along("CumMax", x, axis, site);
  if (error) return {*error, *error};
  return RunningMax(x, a, "CumMax", site);
}

std::pair<Tensor, Tensor> CumMin(const Tensor& x, int64_t axis, Site site) {
  if (IsBoxed(x)) return BothInBox(x, site, [&](const Tensor& t) { return CumMin(t, axis, site); });
  if (auto only = AlongNoAxis(x, axis, site, [&](const Tensor& t) { return CumMin(t, 0, site); }))
    return *only;
  const auto [a, error] = Along("CumMin", x, axis, site);
  if (error) return {*error, *error};
  // By an operation that reverses the order, as in Tensor::Min.
  const bool floats = ir::IsFloat(x.dtype());
  const auto [y, index] = RunningMax(floats ? x.Neg(site) : x.Not(site), a, "CumMin", site);
  return {floats ? y.Neg(site) : y.Not(site), index};
}

Tensor LogCumSumExp(const Tensor& x, int64_t axis, Site site) {
  if (IsBoxed(x))
    return InBox(x, site, [&](const Tensor& t) { return LogCumSumExp(t, axis, site); });
  if (auto only =
          AlongNoAxis(x, axis, site, [&](const Tensor& t) { return LogCumSumExp(t, 0, site); }))
    return *only;
  const auto [at, error] = Along("LogCumSumExp", x, axis, site);
  if (error) return *error;
  const int64_t a = at;
  return InWide("LogCumSumExp", x, site, [&](const Tensor& v) {
    // One row of elements for each result, in a new last axis; those after it count as exp(-inf).
    const Tensor to = v.Transpose(a, -1, site);
    const Tensor most = Finite(CumMax(to, -1, site).first).Detach().Unsqueeze(-1, site);
    const Tensor row = IotaAlong(to, -1).Unsqueeze(-1, site);
    const Tensor column = IotaAlong(to, -1).Unsqueeze(-2, site);
    const Tensor term = Where(row < column, Like(v, -std::numeric_limits<double>::infinity()),
                              to.Unsqueeze(-2, site) - most);
    const Tensor out = ExpOfOffset(term).Sum({-1}, false, site).Log() + most.Squeeze(-1, site);
    return out.Transpose(a, -1, site);
  });
}

Tensor Quantile(const Tensor& x, double q, int64_t axis, bool keep, Site site) {
  if (auto only = AlongNoAxis(x, axis, site,
                              [&](const Tensor& t) { return Quantile(t, q, 0, true, site); }))
    return *only;
  const auto [a, error] = Along("Quantile", x, axis, site);
  if (error) return *error;
  const int64_t n = x.dims()[static_cast<size_t>(a)];
  if (!(q >= 0 && q <= 1) || n == 0)
    return Wrong(x, "Quantile", site, Cat("q is ", q, ", for shape ", Text(x.dims())));
  const bool counted = !ShapeOf(x)[static_cast<size_t>(a)].Is(ir::Op::CONST);
  return InWide("Quantile", x, site, [&, axis = a](const Tensor& v) {
    if (counted) {
      const Tensor out = AlongSorted(v.Sort(axis, false, site).first, q, axis, site);
      return keep ? out : out.Squeeze(axis, site);
    }
    const double at = q * static_cast<double>(n - 1);
    const auto low = static_cast<int64_t>(at);
    const Tensor sorted = v.Sort(axis, false, site).first;
    Tensor out = sorted.Narrow(axis, low, 1, site);
    if (at > static_cast<double>(low))
      out = Lerp(out, sorted.Narrow(axis, low + 1, 1, site), at - static_cast<double>(low));
    // NaNs are the last ones.
    const Tensor last = sorted.Narrow(axis, n - 1, 1, site);
    out = Where(last.IsNan(site), last, out);
    return keep ? out : out.Squeeze(axis, site);
  });
}

Tensor BinCount(const Tensor& x, int64_t size, const Tensor& weights, Site site) {
  if (auto error = FirstError("BinCount", {&x}, site)) return *error;
  if (Has(weights)) {
    if (auto error = FirstError("BinCount", {&x, &weights}, site)) return *error;
  }
  if (ir::IsFloat(x.dtype()) || size < 0 ||
      (Has(weights) && !ir::SameShape(ShapeOf(weights), ShapeOf(x)))) {
    return Wrong(x, "BinCount", site,
                 Cat(size, " counts of ", ir::Name(x.dtype()), " ", Text(x.dims()),
                     Has(weights) ? Cat(", weights ", Text(weights.dims())) : ""));
  }
  const Tensor hit = x.Flatten(0, site).Cast(Dtype::I64, site) ==
                     IotaLike(x, size, Dtype::I64).Unsqueeze(-1, site);
  if (!Has(weights)) return hit.Cast(PositionDtype(x.size()), site).Sum({-1}, false, site);
  const Tensor w = weights.Flatten(0, site);
  return Where(hit, w, Like(w, 0)).Sum({-1}, false, site);
}

Tensor SearchSorted(const Tensor& sorted, const Tensor& values, bool right, Site site) {
  if (auto error = FirstError("SearchSorted", {&sorted, &values}, site)) return *error;
  if (sorted.rank() != 1)
    return Wrong(sorted, "SearchSorted", site, Cat("shape ", Text(sorted.dims()), " is no vector"));
  const bool boxed = IsBoxed(sorted) || IsBoxed(values);
  if (!boxed && static_cast<double>(sorted.size()) * static_cast<double>(values.size()) > kFewPairs)
    return CountBelow(sorted, values, right, site);
  const Tensor v = values.Unsqueeze(-1, site);
  Tensor passed = right ? sorted <= v : sorted < v;
  if (ir::IsFloat(v.dtype()))
    passed = passed | (v.IsNan(site) & (right ? TrueLike(v) : sorted == sorted));
  return passed.Cast(PositionDtype(sorted.size()), site).Sum({-1}, false, site);
}

}  // namespace uopd::client::fn
