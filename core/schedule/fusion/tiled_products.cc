// SPDX-License-Identifier: MIT
#include "core/schedule/fusion/tiled_products.h"

#include <algorithm>

#include "core/schedule/kept/product.h"

namespace uopd::schedule {

using ir::UOp;

namespace {

constexpr size_t kMostNodes = 1024;        // that the search visits; after these it answers yes
constexpr double kFewElements = 1.0 / 64;  // of those of the product

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
  // What is computed from the product, or the product from it, has other loops: it is realised or
  // staged for its own reasons.
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
  if (u.Is(ir::Op::REDUCE) && !info.heavy) NoteSum(u);
  if (info.products.size() != 1 || !(u.Is(ir::Op::REDUCE) || u.Is(ir::kElementwiseOps)))
    return false;
  const uint32_t mine = info.products[0];
  if (info.elements != f_.info[mine].elements) return false;
  if (!summed_.contains(f_.position[u.id()]) && !SharesKernel(info, mine)) return false;
  if (TiledTerms(mine) == 0) return false;
  written_.insert(mine);
  return true;
}

void TiledProducts::NoteSum(UOp u) {
  if (u.reduce_op() != ir::Op::ADD) return;
  UOp term = u.src(0);
  while (term.Is(ir::kMovementOps) || term.Is(ir::Op::CAST)) term = term.src(0);
  const NodeInfo& info = f_.at(term);
  if (info.products.size() != 1) return;
  const uint32_t mine = info.products[0];
  if (info.elements != f_.info[mine].elements || f_.position[term.id()] == mine) return;
  absl::flat_hash_set<uint32_t> seen;
  std::vector<UOp> stack = {term};
  while (!stack.empty()) {
    const UOp v = stack.back();
    stack.pop_back();
    const uint32_t at = f_.position[v.id()];
    const bool ends = at == mine || (f_.info[at].in_memory && v != term);
    if (ends || !seen.insert(at).second) continue;
    if (v.Is(ir::Op::REDUCE) || seen.size() == kMostNodes) return;
    for (UOp s : ValueSources(v)) stack.push_back(s);
  }
  summed_.insert(f_.position[term.id()]);
}

int64_t TiledProducts::TiledTerms(uint32_t position) {
  const auto [it, is_new] = terms_.emplace(position, 0);
  if (!is_new) return it->second;
  const auto product = ProductOf(ctx_, accesses_, f_.order[position]);
  if (!product) return 0;
  const MatrixSizes sizes = MatrixSizesOf(*product);
  return it->second = sizes.least() < kLeastTiledSide ? 0 : sizes.k;
}

bool TiledProducts::IsBesideTiles(UOp u) {
  const NodeInfo& info = f_.at(u);
  if (info.device < 0 || options_.limits[static_cast<size_t>(info.device)].units == 0) return false;
  if (!u.Is(ir::kElementwiseOps) || !info.products.empty() || info.demands.empty()) return false;
  const uint32_t mine = f_.position[u.id()];
  const auto is_beside = [&](uint32_t p) {
    return f_.info[p].realised < 0 && info.elements <= kFewElements * f_.info[p].elements &&
           info.work <= static_cast<double>(TiledTerms(p)) && !IsComputedFrom(f_, p, mine);
  };
  return std::ranges::all_of(info.demands, [&](const Demand& d) {
    return std::ranges::any_of(f_.roots[d.root].outputs, [&](const Output& out) {
      return std::ranges::any_of(f_.at(out.value).products, is_beside);
    });
  });
}

}  // namespace uopd::schedule
