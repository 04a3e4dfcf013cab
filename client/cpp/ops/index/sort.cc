// SPDX-License-Identifier: MIT
// Sort and TopK, in one of three ways:
//
//   few elements   each one's position in sorted order is the number of words that come before its
//                  own
//   many           a sorting network over the words (sort_network.h)
//   TopK of many   the smallest word, then the smallest above that, ... as long as that is less
//                  work
//
// The values are then picked by position (pick.h).
#include <algorithm>
#include <bit>
#include <limits>

#include "client/cpp/graph/build.h"
#include "client/cpp/ops/common.h"
#include "client/cpp/ops/index/pick.h"
#include "client/cpp/ops/index/sort_network.h"
#include "client/cpp/ops/sized.h"
#include "core/ir/build.h"

namespace uopd::client {
namespace {

// Rows of up to so many elements are sorted by counting, and longer ones while all rows have at
// most kFewPairs pairs.
constexpr int64_t kFewElements = 64;

using ValuesAndPositions = std::pair<Tensor, Tensor>;

// The first k of x (n, rows) in sorted order, by counting.
ValuesAndPositions ByCounting(const Tensor& x, int64_t k, bool descending, Site site) {
  const int64_t n = x.dims()[0];
  const SortWords w = WordsOf(x, descending, n, site);
  auto other = [&](const Tensor& t) { return t.Unsqueeze(1, site); };  // (n, 1, rows)
  Tensor before = other(w.high) < w.high;
  if (!w.joined()) before = before | ((other(w.high) == w.high) & (other(w.low) < w.low));
  const Tensor rank = before.Sum({0}, false, site).Contiguous(site);  // (n, rows)
  const Tensor hit = other(rank) == PlacesOf(x, k, Dtype::I32, 1);    // (n, k, rows)
  const Tensor index =
      Where({hit, site}, PlacesOf(x, n, Dtype::I32, 2), ScalarLike(x, Dtype::I32, 0))
          .Sum({0}, false, site);
  return {Picked(hit, hit, other(x), site), index};
}

// The positions (n, rows) of x in sorted order, by a sorting network.
Tensor OrderOf(const Tensor& x, bool descending, Site site) {
  const int64_t n = x.dims()[0];
  const auto length = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
  const Tensor all =
      Sorted(WordsOf(x, descending, length, site), site).Positions(PositionDtype(n), site);
  return all.Narrow(0, 0, n, site).Contiguous(site);
}

// The first k of x (n, rows): k times the smallest word of those that are left.
ValuesAndPositions BySelection(const Tensor& x, int64_t k, bool descending, Site site) {
  const SortWords w = WordsOf(x, descending, x.dims()[0], site);
  // By ~, which reverses the order of integers: the daemon reduces to maxima.
  auto least = [&](const Tensor& left, const Tensor& words) {
    const Tensor none =
        Made(x, Ctx(x).Int(words.dtype(), ir::RangeOf(words.dtype()).max), "TopK", site);
    const Tensor all = left.state() == nullptr ? words : Where({left, site}, words, none);
    return all.Min({0}, true, site).Contiguous(site);
  };
  std::vector<Tensor> high, low;
  for (int64_t i = 0; i < k; ++i) {
    Tensor left;  // empty: all
    if (i > 0) left = high.back() < w.high;
    if (i > 0 && !w.joined()) left = left | ((high.back() == w.high) & (low.back() < w.low));
    high.push_back(least(left, w.high));
    if (w.joined()) continue;
    const Tensor equal = w.high == high.back();
    low.push_back(least(i > 0 ? equal & left : equal, w.low));
  }
  const SortWords taken = {Concat(high, 0, site), w.joined() ? Tensor() : Concat(low, 0, site),
                           w.position_bits};
  const Tensor index = taken.Positions(PositionDtype(x.dims()[0]), site).Contiguous(site);
  return {AtPositions(x, index, Tensor(), site), index};
}

// The first k elements along an axis in sorted order.
ValuesAndPositions FirstOf(const Tensor& x, int64_t k, int64_t axis, bool descending, Site site) {
  // (n, rows): the axis first, all others joined.
  Dims order = {axis}, back;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i != axis) order.push_back(i);
    back.push_back(i < axis ? i + 1 : i == axis ? 0 : i);
  }
  const Tensor moved = x.Permute(order, site);
  Dims dims = moved.dims();
  const int64_t n = dims[0], rows = ir::Product(std::span(dims).subspan(1));
  dims[0] = k;
  auto restored = [&](const Tensor& t) { return t.Reshape(dims, site).Permute(back, site); };
  if (k == 0 || rows == 0) {
    const Tensor none = moved.Narrow(0, 0, k, site);
    return {none.Permute(back, site), none.Cast(PositionDtype(n), site).Permute(back, site)};
  }
  const Tensor t = moved.Reshape({n, rows}, site);
  const double pairs = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(rows);
  const int levels = std::bit_width(static_cast<uint64_t>(n - 1));
  ValuesAndPositions out;
  if (n <= kFewElements || pairs <= kFewPairs) {
    out = ByCounting(t, k, descending, site);
  } else if (4 * k <= int64_t{levels} * (levels + 1)) {
    out = BySelection(t, k, descending, site);
  } else {
    const Tensor index = OrderOf(t, descending, site);
    const Tensor inverse = ir::IsFloat(x.dtype()) ? OrderOf(index, false, site) : Tensor();
    out = {AtPositions(t, index, inverse, site).Narrow(0, 0, k, site), index.Narrow(0, 0, k, site)};
  }
  return {restored(out.first), restored(out.second)};
}

// What Sort puts last: NaN, or the largest integer.
Tensor Greatest(const Tensor& t) {
  if (ir::IsFloat(t.dtype()))
    return ScalarLike(t, t.dtype(), std::numeric_limits<double>::quiet_NaN());
  return Made(t, Ctx(t).Int(t.dtype(), ir::RangeOf(t.dtype()).max), "constant", Site::current());
}

}  // namespace

std::pair<Tensor, Tensor> Tensor::Sort(int64_t axis, bool descending, Site site) const {
  auto both = [](const Tensor& t) { return std::pair(t, t); };
  if (!status().ok()) return both(*this);
  if (auto only = AlongNoAxis(*this, axis, site,
                              [&](const Tensor& t) { return t.Sort(0, descending, site); }))
    return *only;
  const auto a = Axis(axis, rank());
  if (!a) return both(Wrong(*this, "Sort", site, Cat("axis ", axis, " of shape ", Text(dims()))));
  if (is_symbolic()) {
    // What a box has beyond the tensor is sorted to the end, and behind what is equal.
    const Tensor last = descending ? fn::Least(*this, site) : Greatest(*this);
    const auto [values, positions] = Boxed(*this, site, &last).Sort(*a, descending, site);
    return {Cornered(values, SizesOf(*this), site), Cornered(positions, SizesOf(*this), site)};
  }
  return FirstOf(*this, dims()[static_cast<size_t>(*a)], *a, descending, site);
}

std::pair<Tensor, Tensor> Tensor::TopK(int64_t k, int64_t axis, bool largest, Site site) const {
  auto both = [](const Tensor& t) { return std::pair(t, t); };
  if (!status().ok()) return both(*this);
  if (k == 1) {
    if (auto only = AlongNoAxis(*this, axis, site,
                                [&](const Tensor& t) { return t.TopK(1, 0, largest, site); }))
      return *only;
  }
  const auto a = Axis(axis, rank());
  if (!a || k < 0 || k > dims()[static_cast<size_t>(*a)]) {
    return both(
        Wrong(*this, "TopK", site, Cat(k, " elements of axis ", axis, " of shape ", Text(dims()))));
  }
  if (is_symbolic()) {
    const auto [values, positions] = Sort(*a, largest, site);
    return {values.Narrow(*a, 0, k, site), positions.Narrow(*a, 0, k, site)};
  }
  return FirstOf(*this, k, *a, largest, site);
}

}  // namespace uopd::client
