// SPDX-License-Identifier: MIT
#include "core/schedule/fusion/tiled_products.h"

#include <algorithm>

#include "core/schedule/kept/product.h"

namespace uopd::schedule {

using ir::UOp;

namespace {

constexpr size_t kMostNodes = 1024;  // that the search visits; after these it answers yes

// Whether node `to` is computed from node `from`; both are positions. Sources have lower positions.
bool IsComputedFrom(const Fusion& f, uint32_t to, uint32_t from) {
  absl::flat_hash_set<uint32_t> seen;
  std::vector<uint32_t> stack = {to};
  while (!stack.empty()) {
    const uint32_t at = stack.back();
    stack.pop_back();
    if (at == from) return true;
    if (at < from || !seen.insert(at).second) continue;
    if (seen.size() == kMostNodes) return true;
    for (UOp s : ValueSources(f.order[at])) stack.push_back(f.position[s.id()]);
  }
  return false;
}

}  // namespace

bool TiledProducts::SharesKernel(const NodeInfo& info, uint32_t mine) const {
  // What is computed from the product, or the product from it, has other loops: it is realised or staged for its own
  // reasons.
  const auto is_other = [&](uint32_t p) {
    return p != mine && f_.info[p].realised < 0 && !written_.contains(p) &&
           !IsComputedFrom(f_, std::max(p, mine), std::min(p, mine));
  };
  return std::ranges::any_of(info.demands, [&](const Demand& d) {
    return std::ranges::any_of(f_.roots[d.root].outputs, [&](const Output& out) {
      return std::ranges::any_of(f_.at(out.value).products, is_other);
    });
  });
}

bool TiledProducts::MustWrite(UOp u) {
  const NodeInfo& info = f_.at(u);
  if (info.device < 0 || options_.limits[static_cast<size_t>(info.device)].units == 0) return false;
  if (info.products.size() != 1 || !(u.Is(ir::Op::REDUCE) || u.Is(ir::kElementwiseOps)))
    return false;
  const uint32_t mine = info.products[0];
  if (info.elements != f_.info[mine].elements || !SharesKernel(info, mine)) return false;
  const auto product = ProductOf(ctx_, accesses_, f_.order[mine]);
  if (!product || MatrixSizesOf(*product).least() < kLeastTiledSide) return false;
  written_.insert(mine);
  return true;
}

}  // namespace uopd::schedule
