// SPDX-License-Identifier: MIT
#include "core/schedule/lowering/kernel_ranges.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "core/ir/graph.h"
#include "core/ir/tables/node_index.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::UOp;

// A set of ranges: one bit for each range of the kernel, in topological order.
using Ranges = absl::InlinedVector<uint64_t, 1>;

// The depth of nested reductions and stages below a node, and the ranges that it depends on. Two
// reductions of one level do not depend on each other.
struct Place {
  int level = 0;
  Ranges along;
};

bool Loops(UOp u) { return u.Is(ir::OpSet{Op::REDUCE, Op::STAGE}); }

// The kernel after one pass over its reductions and stages; a null node if none can share.
UOp ShareOnce(ir::UOpContext& ctx, UOp sink) {
  const std::vector<UOp> order = ir::Toposort(ctx, sink);
  if (std::count_if(order.begin(), order.end(), Loops) < 2) return UOp();
  ir::NodeIndex position(ctx.size()), number(ctx.size());
  uint32_t ranges = 0;
  for (UOp u : order) {
    if (u.Is(Op::RANGE)) number.Set(u, ranges++);
  }
  const Ranges none((ranges + 63) / 64, 0);
  std::vector<Place> places(order.size());
  using Key = std::tuple<int, Ranges, std::vector<uint32_t>>;  // level, along, sizes
  std::map<Key, UOp> first;
  ir::Substitution map;
  for (uint32_t k = 0; k < order.size(); ++k) {
    const UOp u = order[k];
    position.Set(u, k);
    Place& place = places[k];
    place.along = none;
    if (u.Is(Op::RANGE)) place.along[number[u] / 64] |= uint64_t{1} << number[u] % 64;
    const bool loops = Loops(u);
    for (UOp s : loops ? u.body() : u.srcs()) {
      const Place& from = places[position[s]];
      for (size_t w = 0; w < none.size(); ++w) place.along[w] |= from.along[w];
      place.level = std::max(place.level, from.level);
    }
    if (!loops) continue;
    ++place.level;
    std::vector<uint32_t> sizes;
    for (UOp r : u.closed()) {
      place.along[number[r] / 64] &= ~(uint64_t{1} << number[r] % 64);
      sizes.push_back(r.src(0).id());
    }
    const auto [it, fresh] = first.try_emplace(Key{place.level, place.along, std::move(sizes)}, u);
    if (fresh) continue;
    for (size_t i = 0; i < u.closed().size(); ++i) {
      const UOp mine = u.closed()[i], shared = it->second.closed()[i];
      if (mine != shared) map[mine.id()] = shared;
    }
  }
  return map.empty() ? UOp() : ir::Substitute(ctx, sink, map);
}

}  // namespace

UOp ShareRanges(ir::UOpContext& ctx, rewrite::Rewriter& simplify, UOp sink) {
  // Again until nothing changes: inner reductions may become alike when outer ones share ranges.
  while (!ctx.Interrupted(64)) {
    const UOp shared = ShareOnce(ctx, sink);
    if (!shared) break;
    sink = simplify.Run(shared);
  }
  return sink;
}

}  // namespace uopd::schedule
