// SPDX-License-Identifier: MIT
#include "core/codegen/opts/plan_kernel.h"

#include <bit>

#include "absl/container/flat_hash_set.h"
#include "core/codegen/attention/online/online.h"
#include "core/codegen/opts/make/merge_axes.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"

namespace uopd::codegen {

using ir::AxisType;
using ir::Op;
using ir::UOp;
using ir::UOpContext;

std::vector<UOp> Axes(const UOpContext& ctx, UOp sink) {
  std::vector<UOp> out;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::RANGE)) out.push_back(u);
  }
  std::sort(out.begin(), out.end(), [](UOp a, UOp b) {
    return std::pair(a.axis_id(), a.id()) < std::pair(b.axis_id(), b.id());
  });
  return out;
}

std::vector<UOp> Loads(const UOpContext& ctx, UOp sink) {
  const auto order = ir::Toposort(ctx, sink);
  absl::flat_hash_set<uint32_t> stored, inside;
  for (UOp u : order) {
    if (u.Is(Op::STORE)) stored.insert(ir::MaybeBaseOf(u.src(0).src(0)).id());
  }
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (!it->Is(Op::REDUCE) && !inside.contains(it->id())) continue;
    for (UOp s : it->body()) inside.insert(s.id());
  }
  std::vector<UOp> out;
  for (UOp u : order) {
    if (u.Is(Op::LOAD) && u.src(0).src(0).Is(Op::PARAM) && inside.contains(u.id()) &&
        !stored.contains(u.src(0).src(0).id()))
      out.push_back(u);
  }
  return out;
}

std::vector<UOp> Stores(const UOpContext& ctx, UOp sink) {
  std::vector<UOp> out;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::STORE) && u.src(0).src(0).Is(Op::PARAM)) out.push_back(u);
  }
  return out;
}

std::vector<UOp> Reads(const UOpContext& ctx, UOp sink) {
  const auto order = ir::Toposort(ctx, sink);
  absl::flat_hash_set<uint32_t> stored;
  for (UOp u : order) {
    if (u.Is(Op::STORE)) stored.insert(u.src(0).src(0).id());
  }
  std::vector<UOp> out;
  for (UOp u : order) {
    if (u.Is(Op::LOAD) && u.src(0).src(0).Is(Op::PARAM) && !stored.contains(u.src(0).src(0).id()))
      out.push_back(u);
  }
  return out;
}

// Whether a statement loads from a buffer that another statement stores to.
static bool FeedsAnother(const UOpContext& ctx, UOp sink) {
  std::vector<absl::flat_hash_set<uint32_t>> loads, stores;
  for (UOp root : sink.srcs()) {
    loads.emplace_back(), stores.emplace_back();
    for (UOp u : ir::Toposort(ctx, root)) {
      if (!u.Is({Op::LOAD, Op::STORE})) continue;
      if (const UOp base = ir::MaybeBaseOf(u.src(0).src(0)))
        (u.Is(Op::LOAD) ? loads : stores).back().insert(base.id());
    }
  }
  for (size_t i = 0; i < stores.size(); ++i) {
    for (size_t j = 0; j < loads.size(); ++j) {
      if (i == j) continue;
      if (std::ranges::any_of(stores[i], [&](uint32_t id) { return loads[j].contains(id); }))
        return true;
    }
  }
  return false;
}

PlanKernel::PlanKernel(UOpContext& ctx, UOp root)
    : sink(root),
      loads(Loads(ctx, root)),
      stores(Stores(ctx, root)),
      reads(Reads(ctx, root)),
      order(ir::Toposort(ctx, root)),
      at_(std::in_place, ctx.size()) {
  for (UOp r : Axes(ctx, sink)) {
    PlanAxis a;
    a.range = r;
    a.symbolic = r.src(0);
    a.is_reduce = r.axis_type() == AxisType::REDUCE;
    a.is_vector = r.axis_type() == AxisType::VECTOR;
    a.is_merged_away = (r.axis_type() == AxisType::LOOP || a.is_reduce) && r.tag() == kMergedAway;
    if (r.src(0).Is(Op::CONST)) a.size = r.src(0).const_int();
    a.rank = axes.size();
    number_[r.id()] = axes.size();
    axes.push_back(a);
  }
  absl::flat_hash_set<uint32_t> loaded, stored;
  for (UOp u : order) {
    for (UOp r : u.scanned()) axes[AxisOf(r)].is_scanned = true;
    if (ClosesStates(u)) axes[AxisOf(u.closed()[0])].is_key_tiles = true;
    if (!u.Is({Op::LOAD, Op::STORE})) continue;
    if (const UOp base = ir::MaybeBaseOf(u.src(0).src(0)))
      (u.Is(Op::LOAD) ? loaded : stored).insert(base.id());
  }
  for (uint32_t id : stored) in_place |= loaded.contains(id);
  in_order = in_place && FeedsAnother(ctx, sink);
  words_ = (axes.size() + 63) / 64;
  FindDependencies();
}

void PlanKernel::FindDependencies() {
  along_.assign(order.size() * words_, 0);
  uint64_t* mine = along_.data();
  auto bit = [&](UOp range, auto set) {
    const size_t n = AxisOf(range);
    set(mine[n / 64], uint64_t{1} << (n % 64));
  };
  for (size_t i = 0; i < order.size(); ++i, mine += words_) {
    const UOp u = order[i];
    at_->Set(u, static_cast<uint32_t>(i));
    has_stages |= u.Is(Op::STAGE);
    for (UOp s : u.srcs()) {
      for (size_t w = 0; w < words_; ++w) mine[w] |= along_[(*at_)[s] * words_ + w];
    }
    if (u.Is(Op::RANGE)) bit(u, [](uint64_t& word, uint64_t b) { word |= b; });
    for (UOp r : u.closed()) bit(r, [](uint64_t& word, uint64_t b) { word &= ~b; });
  }
}

bool PlanKernel::InEveryEnd(UOp range) const {
  for (UOp root : sink.srcs()) {
    if (!root.Is(Op::END) ||
        std::find(root.srcs().begin() + 1, root.srcs().end(), range) == root.srcs().end())
      return false;
  }
  return true;
}

int PlanKernel::CountAlong(UOp u, std::span<const uint64_t> marked) const {
  int n = 0;
  for (size_t w = 0; w < words_; ++w) {
    uint64_t mine = along_[(*at_)[u] * words_ + w];
    for (UOp s : u.srcs()) mine |= along_[(*at_)[s] * words_ + w];
    n += std::popcount(mine & marked[w]);
  }
  return n;
}

std::vector<uint64_t> PlanKernel::Marked(const std::vector<PlanAxis>& axes,
                                         bool PlanAxis::* mark) const {
  std::vector<uint64_t> out(words_);
  for (size_t i = 0; i < axes.size(); ++i) out[i / 64] |= uint64_t{axes[i].*mark} << (i % 64);
  return out;
}

}  // namespace uopd::codegen
