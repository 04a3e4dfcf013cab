// SPDX-License-Identifier: MIT
#include "core/schedule/share_ranges.h"

#include <algorithm>
#include <map>

#include "core/ir/graph.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::UOp;

using Ranges = std::vector<uint32_t>;  // ids, ascending

// How deep reductions and stages nest below a node, and the ranges that it varies with.
struct Place {
  int level = 0;
  Ranges along;
};

void Union(Ranges& into, const Ranges& more) {
  Ranges both;
  std::set_union(into.begin(), into.end(), more.begin(), more.end(), std::back_inserter(both));
  into = std::move(both);
}

// One set of reductions and stages made to share; a null node if there is none.
UOp ShareOnce(ir::UOpContext& ctx, UOp sink) {
  absl::flat_hash_map<uint32_t, Place> places;
  struct Key {
    int level;
    Ranges along;
    std::vector<uint32_t> sizes;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, UOp> first;
  ir::Substitution map;
  for (UOp u : ir::Toposort(ctx, sink)) {
    Place& place = places[u.id()];
    if (u.Is(Op::RANGE)) place.along = {u.id()};
    const bool loops = u.Is(ir::OpSet{Op::REDUCE, Op::STAGE});
    for (UOp s : loops ? u.body() : u.srcs()) {
      const Place& from = places.at(s.id());
      Union(place.along, from.along);
      place.level = std::max(place.level, from.level);
    }
    if (!loops) continue;
    ++place.level;
    Key key{place.level, {}, {}};
    for (UOp r : u.closed()) {
      std::erase(place.along, r.id());
      key.sizes.push_back(r.src(0).id());
    }
    key.along = place.along;
    const auto [it, fresh] = first.try_emplace(std::move(key), u);
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
  // Inner reductions become alike when the outer ones share their ranges.
  while (const UOp shared = ShareOnce(ctx, sink)) sink = simplify.Run(shared);
  return sink;
}

}  // namespace uopd::schedule
