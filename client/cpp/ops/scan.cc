// SPDX-License-Identifier: MIT
// Running sums, and sorting, which works on the last axis after a transposition.
#include <bit>
#include <limits>

#include "client/cpp/graph/build.h"
#include "core/ir/build.h"

namespace uopd::client {
namespace {

// True where a comes before b in ascending order; NaN comes last.
Tensor Less(const Tensor& a, const Tensor& b) {
  return ir::IsFloat(a.dtype()) ? (a < b) | (b.IsNan() & a.IsNan().Not()) : a < b;
}

// One step of Batcher's bitonic sorter. Compares pairs of elements that are `distance` apart and
// exchanges them into order. If `mirrored`, the pairs are those that mirror each other in a block
// of 2 * distance elements. K. E. Batcher, Sorting networks and their applications, 1968; in the
// form where all exchanges have the same direction.
Tensor Exchange(const Tensor& t, int64_t distance, bool mirrored, Site site) {
  const int64_t n = t.dims().back();
  Dims split = t.dims();
  split.back() = n / (2 * distance);
  split.push_back(2);
  split.push_back(distance);
  const Tensor pairs = t.Reshape(split, site);
  const Tensor a = pairs.Select(-2, 0, site);
  const Tensor right = pairs.Select(-2, 1, site);
  const Tensor b = mirrored ? right.Flip({-1}, site) : right;
  const Tensor swap = Less(b, a), low = Where(swap, b, a), high = Where(swap, a, b);
  const Tensor both[] = {low, mirrored ? high.Flip({-1}, site) : high};
  // Materialised, because otherwise every step would compute the step before it twice.
  return Stack(both, -2, site).Reshape(t.dims(), site).Contiguous(site);
}

// The position of each element in sorted order: the number of elements that come before it. Of
// equal elements, those at earlier positions come first.
Tensor Rank(const Tensor& t, bool descending, Site site) {
  const int64_t n = t.dims().back();
  const Tensor mine = t.Unsqueeze(-1, site), other = t.Unsqueeze(-2, site);
  const Tensor row = IotaLike(t, n, Dtype::I32).Unsqueeze(-1, site),
               column = IotaLike(t, n, Dtype::I32);
  const Tensor less = descending ? Less(mine, other) : Less(other, mine);
  const Tensor more = descending ? Less(other, mine) : Less(mine, other);
  return Where({column < row, site}, more.Not(site), less).Sum({-1}, false, site);
}

}  // namespace

Tensor Tensor::CumSum(int64_t axis, Site site) const {
  if (!status().ok()) return *this;
  if (auto wrong = Symbolic(*this, "CumSum", site)) return *wrong;
  if (auto only =
          AlongNoAxis(*this, axis, site, [&](const Tensor& t) { return t.CumSum(0, site); }))
    return *only;
  const auto a = Axis(axis, rank());
  if (!a) return Wrong(*this, "CumSum", site, Cat("axis ", axis, " of shape ", Text(dims())));
  // Takes the dtype from a Sum that is never realised, which costs nothing.
  const Tensor x = Cast(Sum({*a}, false, site).dtype(), site);
  return Made(x, ir::Scan(Ctx(x), ir::Op::ADD, Value(x), *a), "CumSum", site);
}

std::pair<Tensor, Tensor> Tensor::Sort(int64_t axis, bool descending, Site site) const {
  auto both = [](const Tensor& t) { return std::pair(t, t); };
  if (!status().ok()) return both(*this);
  if (auto wrong = Symbolic(*this, "Sort", site)) return both(*wrong);
  if (auto only = AlongNoAxis(*this, axis, site,
                              [&](const Tensor& t) { return t.Sort(0, descending, site); }))
    return *only;
  const auto a = Axis(axis, rank());
  if (!a) return both(Wrong(*this, "Sort", site, Cat("axis ", axis, " of shape ", Text(dims()))));
  const Tensor t = Transpose(*a, -1, site);
  const int64_t n = t.dims().back();
  // The axis is padded to a power of two with a value that sorts last.
  const auto whole =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
  Dims none(t.dims().size(), 0), more = none;
  more.back() = n == 0 ? 0 : whole - n;
  Tensor s = dtype() == Dtype::Bool ? t.Cast(Dtype::U8, site) : t;
  if (more.back() != 0) {
    const Tensor inside = IotaLike(t, whole, Dtype::I32) < Operand(n, site);
    const ir::IntRange range = ir::IsFloat(s.dtype()) ? ir::IntRange{} : ir::RangeOf(s.dtype());
    const Tensor last = ir::IsFloat(s.dtype())
                            ? ScalarLike(s, s.dtype(), std::numeric_limits<double>::quiet_NaN())
                            : Made(s, Ctx(s).Int(s.dtype(), range.max), "Sort", site);
    s = Where(inside, s.Pad(none, more, 0, site), last);
  }
  for (int64_t block = 2; n > 0 && block <= whole; block *= 2) {
    for (int64_t distance = block / 2; distance >= 1; distance /= 2)
      s = Exchange(s, distance, distance == block / 2, site);
  }
  s = s.Narrow(-1, 0, n, site);
  if (descending) s = s.Flip({-1}, site);
  s = s.Cast(dtype(), site);
  const Tensor row = IotaLike(t, n, Dtype::I32).Unsqueeze(-1, site),
               column = IotaLike(t, n, Dtype::I32);
  const Tensor rank = Rank(t, descending, site).Contiguous(site).Unsqueeze(-2, site);
  const Tensor index =
      Where({rank == row, site}, column, ScalarLike(t, Dtype::I32, 0)).Sum({-1}, false, site);
  return {s.Transpose(*a, -1, site), index.Transpose(*a, -1, site)};
}

std::pair<Tensor, Tensor> Tensor::TopK(int64_t k, int64_t axis, bool largest, Site site) const {
  if (status().ok() && k == 1) {
    if (auto only = AlongNoAxis(*this, axis, site,
                                [&](const Tensor& t) { return t.TopK(1, 0, largest, site); }))
      return *only;
  }
  const auto a = status().ok() ? Axis(axis, rank()) : std::nullopt;
  if (a && (k < 0 || k > dims()[static_cast<size_t>(*a)])) {
    const Tensor wrong =
        Wrong(*this, "TopK", site, Cat(k, " elements of axis ", axis, " of shape ", Text(dims())));
    return {wrong, wrong};
  }
  auto [values, index] = Sort(axis, largest, site);
  return {values.Narrow(axis, 0, k, site), index.Narrow(axis, 0, k, site)};
}

}  // namespace uopd::client
