// SPDX-License-Identifier: MIT
// The heuristic merges axes of a product, so that its tiles have little padding (block_heuristic.h;
// opts/make/merge_axes.h).
//
// Convolutions are products whose rows are the pixels of all images. A row of an image is often
// shorter than a tile, or leaves much of the last tile empty. So the innermost axes of the pixels
// are merged: first the rows of an image, then the images, as far as this saves padding. In the
// same way the axes of a short sum are merged (three channels under windows of 7 x 7 elements),
// because only the longest of them is cut into steps.
//
// Few merges are better than many: indices of merged axes have divisions, and fewer neighbours in
// memory.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/codegen/gpu/heuristic/product.h"

namespace uopd::codegen {
namespace {

constexpr int64_t kTile = 64;  // results along an axis of a tile, about
constexpr double kMostPadding =
    1.1;                             // iterations with those in the padding, that no merge improves
constexpr int64_t kLeastTerms = 32;  // of the longest axis of a sum that is cut into steps

double Padding(double n) {
  return std::ceil(n / static_cast<double>(kTile)) * static_cast<double>(kTile) / n;
}

// The first of `axes` whose merge with all that follow leaves the least padding; if possible a late
// one.
size_t FirstOfMerge(const std::vector<size_t>& axes, const std::vector<int64_t>& sizes) {
  size_t best = axes.size() - 1;
  double least = 0, n = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    n *= static_cast<double>(sizes[axes[i]]);
    const double padding = Padding(n);
    if (i + 1 < axes.size() && padding >= least) continue;
    best = i, least = padding;
    if (padding <= kMostPadding) break;
  }
  return best;
}

}  // namespace

std::vector<Opt> MergesOf(const KernelFacts& facts) {
  const auto loads = MaybeFactors(facts);
  if (!loads) return {};
  std::vector<Opt> out;
  const auto merge = [&](const std::vector<size_t>& axes, size_t first) {
    for (size_t i = first + 1; i < axes.size(); ++i)
      out.push_back(
          {OptKind::kMerge, static_cast<int>(axes[first]), static_cast<int64_t>(axes[i])});
  };
  for (const int i : {0, 1}) {
    std::vector<size_t> own;
    for (size_t a = 0; a < facts.axes.size(); ++a) {
      if (IsOwnAxis(facts, *(*loads)[i], *(*loads)[1 - i], a) && facts.sizes[a] > 1)
        own.push_back(a);
    }
    if (own.size() > 1) merge(own, FirstOfMerge(own, facts.sizes));
  }
  std::vector<size_t> reduced;
  int64_t longest = 0;
  for (size_t a = 0; a < facts.axes.size(); ++a) {
    if ((facts.results[0].over & AxisBit(a)) == 0 || facts.sizes[a] == 1) continue;
    if (!facts.fixed[a]) return {};
    reduced.push_back(a);
    longest = std::max(longest, facts.sizes[a]);
  }
  if (longest < kLeastTerms && reduced.size() > 1) merge(reduced, 0);
  std::ranges::sort(out, {}, [](const Opt& o) { return std::pair(o.axis, o.amount); });
  return out;
}

}  // namespace uopd::codegen
