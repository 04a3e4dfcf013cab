// SPDX-License-Identifier: MIT
// Ops that choose elements by their values, one after the other. Their inputs are read back, and
// the client chooses.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"

namespace uopd::client::onnx {
namespace {

struct Box {
  double y1, x1, y2, x2;
  double area() const { return (y2 - y1) * (x2 - x1); }
};

Box BoxAt(const std::vector<double>& all, size_t i, bool by_center) {
  const double* b = all.data() + 4 * i;
  if (by_center) return {b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
  return {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
}

bool Overlap(const Box& a, const Box& b, double threshold) {
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  const double width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (height <= 0 || width <= 0) return false;
  const double both = height * width, either = a.area() + b.area() - both;
  return either > 0 && both / either > threshold;
}

// Inputs: boxes (n, count, 4), scores (n, classes, count), limits.
absl::Status RunNonMaxSuppression(Call& c) {
  if (c.Rank(0) != 3 || c.Rank(1) != 3 || c.Shape(0)[2] != 4 || c.Shape(0)[0] != c.Shape(1)[0] ||
      c.Shape(1)[2] != c.Shape(0)[1])
    return c.Wrong("boxes or scores have a wrong shape");
  const bool by_center = c.Int("center_point_box", 0) != 0;
  UOPD_ASSIGN(const std::vector<double> boxes, c.Floats(0));
  UOPD_ASSIGN(const std::vector<double> scores, c.Floats(1));
  int64_t most = 0;
  double overlap = 0, least = -std::numeric_limits<double>::infinity();
  if (c.Has(2)) {
    UOPD_ASSIGN(most, c.OneInt(2));
  }
  if (c.Has(3)) {
    UOPD_ASSIGN(overlap, c.OneFloat(3));
  }
  if (c.Has(4)) {
    UOPD_ASSIGN(least, c.OneFloat(4));
  }
  const int64_t n = c.Shape(1)[0], classes = c.Shape(1)[1], count = c.Shape(1)[2];
  std::vector<int64_t> out;
  const auto give = [&] {
    return c.Out(KnownInts(ElementType("INT64"), {static_cast<int64_t>(out.size()) / 3, 3}, out));
  };
  if (ir::Product(c.Shape(1)) == 0 || most < 1) return give();  // other sizes may be huge
  // Each box is compared with those that were chosen before it.
  constexpr double kMostComparisons = 1e9, kComparisonsOfNode = 4096;
  const double comparisons =
      static_cast<double>(n * classes * count) * static_cast<double>(std::min(most, count));
  if (comparisons > kMostComparisons)
    return absl::ResourceExhaustedError("more than 10^9 pairs of boxes would be compared");
  UOPD_TRY(c.walk().Charge(static_cast<int64_t>(comparisons / kComparisonsOfNode)));
  for (int64_t row = 0; row < n * classes; ++row) {
    const double* score = scores.data() + row * count;
    std::vector<int64_t> order;
    for (int64_t i = 0; i < count; ++i)
      if (score[i] > least) order.push_back(i);
    std::ranges::sort(order, [&](int64_t a, int64_t b) {
      return score[a] != score[b] ? score[a] > score[b] : a < b;
    });
    std::vector<Box> chosen;
    for (const int64_t i : order) {
      if (static_cast<int64_t>(chosen.size()) >= most) break;
      const Box box = BoxAt(boxes, static_cast<size_t>(row / classes * count + i), by_center);
      if (std::ranges::any_of(chosen, [&](const Box& b) { return Overlap(b, box, overlap); }))
        continue;
      chosen.push_back(box);
      out.insert(out.end(), {row / classes, row % classes, i});
    }
  }
  return give();
}

// The parts of a tensor along an axis (all elements, without one) without those that were there
// before.
absl::Status RunUnique(Call& c) {
  const bool sorted = c.Int("sorted", 1) != 0, flat = c.Find("axis") == nullptr;
  UOPD_ASSIGN(const int64_t axis, c.Axis(c.Int("axis", 0), flat ? 1 : c.Rank(0)));
  constexpr int64_t kMostElements = 1 << 20;  // each of them costs the client some 100 bytes
  const int64_t parts_of = flat ? 1 : c.Shape(0)[static_cast<size_t>(axis)];
  if (ir::Product(c.Shape(0)) > kMostElements || parts_of > kMostElements)
    return c.Refuse(Cat("more than ", kMostElements, " elements are not supported"));
  UOPD_TRY(c.walk().ChargeBytes(
      100 * static_cast<uint64_t>(std::max(ir::Product(c.Shape(0)), parts_of))));
  UOPD_ASSIGN(const std::vector<double> all, c.Floats(0));
  if (ir::Bits(c.DtypeOf(0)) == 64 && !ir::IsFloat(c.DtypeOf(0)) &&
      std::ranges::any_of(all, [](double v) { return std::abs(v) > 9e15; }))
    return c.Refuse("integers of more than 53 bits are not supported");
  const Dims dims = flat ? Dims{ir::Product(c.Shape(0))} : c.Shape(0);
  const auto a = static_cast<size_t>(axis);
  const int64_t before = ir::Product(std::span<const int64_t>(dims).first(a));
  const int64_t after = ir::Product(std::span<const int64_t>(dims).subspan(a + 1));
  std::map<std::vector<double>, size_t> known;
  std::vector<std::vector<double>> parts;
  std::vector<int64_t> first, counts, inverse;
  for (int64_t i = 0; i < dims[a]; ++i) {
    std::vector<double> part;
    for (int64_t p = 0; p < before; ++p) {
      const double* at = all.data() + (p * dims[a] + i) * after;
      part.insert(part.end(), at, at + after);
    }
    if (std::ranges::any_of(part, [](double v) { return v != v; }))
      return c.Refuse("NaN is not supported");
    const auto [found, is_new] = known.try_emplace(part, parts.size());
    if (is_new) {
      parts.push_back(std::move(part));
      first.push_back(i);
      counts.push_back(0);
    }
    ++counts[found->second];
    inverse.push_back(static_cast<int64_t>(found->second));
  }
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (sorted) std::ranges::sort(order, {}, [&](size_t i) { return parts[i]; });
  std::vector<int64_t> rank(order.size()), places, numbers;
  for (size_t i = 0; i < order.size(); ++i) {
    rank[order[i]] = static_cast<int64_t>(i);
    places.push_back(first[order[i]]);
    numbers.push_back(counts[order[i]]);
  }
  for (int64_t& i : inverse) i = rank[static_cast<size_t>(i)];
  const auto n = static_cast<int64_t>(order.size()), length = static_cast<int64_t>(inverse.size());
  const OnnxElementType* type = ElementType("INT64");
  const Value at = KnownInts(type, {n}, places);
  const Tensor x = flat ? c.X(0).Reshape({-1}) : c.X(0);
  UOPD_TRY(c.OutAs(0, x.IndexSelect(axis, c.client().FromHost(places, {n}))));
  UOPD_TRY(c.Out(at, 1));
  UOPD_TRY(c.Out(KnownInts(type, {length}, inverse), 2));
  return c.Out(KnownInts(type, {n}, numbers), 3);
}

}  // namespace

OpRows SelectionOps() {
  return {
      {"NonMaxSuppression", 10, 2, 5, RunNonMaxSuppression},
      {"Unique", 11, 1, 1, RunUnique},
  };
}

}  // namespace uopd::client::onnx
