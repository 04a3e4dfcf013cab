// SPDX-License-Identifier: MIT
#include "core/codegen/passes/prepare_stages.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/container/flat_hash_set.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;
using ir::UOpContext;
using Ranges = std::vector<uint32_t>;  // ids, ascending

constexpr ir::OpSet kLoopers = {Op::REDUCE, Op::STAGE};

// By node: the ranges that it depends on (along), and how deep REDUCEs and STAGEs nest in it
// (level).
struct Places {
  absl::flat_hash_map<uint32_t, Ranges> along;
  absl::flat_hash_map<uint32_t, int> level;

  Places(const UOpContext& ctx, UOp sink) {
    for (UOp u : ir::Toposort(ctx, sink)) {
      Ranges mine;
      if (u.Is(Op::RANGE)) mine.push_back(u.id());
      int deepest = 0;
      for (UOp s : u.body()) {
        Ranges both;
        const Ranges& from = along.at(s.id());
        std::set_union(mine.begin(), mine.end(), from.begin(), from.end(),
                       std::back_inserter(both));
        mine = std::move(both);
        deepest = std::max(deepest, level.at(s.id()));
      }
      for (UOp r : u.closed()) std::erase(mine, r.id());
      along[u.id()] = std::move(mine);
      level[u.id()] = deepest + (u.Is(kLoopers) ? 1 : 0);
    }
  }
  bool VariesWith(UOp u, std::span<const UOp> ranges) const {
    const Ranges& mine = along.at(u.id());
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](UOp r) { return std::binary_search(mine.begin(), mine.end(), r.id()); });
  }
};

// u with `map` applied to its nodes that depend on `ranges`. Inner REDUCEs and STAGEs that close
// these ranges themselves stay as they are.
UOp ReplaceInside(UOpContext& ctx, const Places& places, UOp u, std::span<const UOp> ranges,
                  const ir::Substitution& map) {
  absl::flat_hash_map<uint32_t, UOp> done;
  ir::SymbolicDims srcs;
  const auto varies = [&](UOp n) { return places.VariesWith(n, ranges) && !map.contains(n.id()); };
  for (UOp n : ir::Toposort(ctx, std::span<const UOp>(&u, 1), varies)) {
    if (auto it = map.find(n.id()); it != map.end()) {
      done[n.id()] = it->second;
    } else if (!varies(n)) {
      done[n.id()] = n;
    } else {
      srcs.clear();
      for (UOp s : n.srcs()) srcs.push_back(done.at(s.id()));
      done[n.id()] = ctx.WithSources(n, srcs);
    }
  }
  return done.at(u.id());
}

bool SameSizes(std::span<const UOp> a, std::span<const UOp> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](UOp x, UOp y) { return x.src(0) == y.src(0); });
}

// `reduce` rewritten to run in the loop of `stage`; null if that is impossible or not worth it.
UOp InLoopOf(UOpContext& ctx, const Places& places, UOp reduce, UOp stage) {
  if (!stage.src(2).IsConstInt(1) || !SameSizes(reduce.closed(), stage.closed()) ||
      places.along.at(reduce.id()) != places.along.at(stage.id())) {
    return UOp();
  }
  const auto loops_inside = [&](UOp n) { return places.VariesWith(n, stage.closed()); };
  for (UOp n : ir::Toposort(ctx, stage.srcs().first(1), loops_inside)) {
    if (n.Is(kLoopers) && loops_inside(n)) return UOp();
  }
  ir::Substitution ranges;
  for (size_t i = 0; i < reduce.closed().size(); ++i)
    ranges[reduce.closed()[i].id()] = stage.closed()[i];
  const auto inside = [&](UOp u) { return ReplaceInside(ctx, places, u, reduce.closed(), ranges); };
  // Replace each load of the element that the current iteration stores by the value itself. Any
  // other load of the stage makes the fusion impossible.
  ir::Substitution values = ranges;
  int level = 0;
  const auto varies = [&](UOp n) { return places.VariesWith(n, reduce.closed()); };
  for (UOp n : ir::Toposort(ctx, reduce.srcs().first(1), varies)) {
    if (n.Is(kLoopers) && varies(n)) return UOp();
    if (n.Is(Op::LOAD) && n.src(0).src(0) == stage && n.src(0).n_src() == 2 &&
        inside(n.src(0).src(1)) == stage.src(1)) {
      values[n.id()] = stage.src(0);
    }
  }
  const UOp value = ReplaceInside(ctx, places, reduce.src(0), reduce.closed(), values);
  for (UOp n : ir::Toposort(ctx, value)) {
    if (n == stage) return UOp();
    if (n.Is(kLoopers)) level = std::max(level, places.level.at(n.id()));
  }
  if (level + 1 != places.level.at(stage.id())) return UOp();
  return ir::ReduceRanges(ctx, reduce.reduce_op(), value, stage.closed());
}

// Moves the first reduction that InLoopOf accepts; sink itself if there is none.
UOp ForwardOnce(UOpContext& ctx, UOp sink) {
  const Places places(ctx, sink);
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (!u.Is(Op::REDUCE)) continue;
    const auto varies = [&](UOp n) { return places.VariesWith(n, u.closed()); };
    for (UOp n : ir::Toposort(ctx, u.srcs().first(1), varies)) {
      if (!n.Is(Op::LOAD) || !n.src(0).src(0).Is(Op::STAGE)) continue;
      if (const UOp out = InLoopOf(ctx, places, u, n.src(0).src(0)))
        return ir::Substitute(ctx, sink, {{u.id(), out}});
    }
  }
  return sink;
}

// Groups REDUCEs and STAGEs that Linearise emits as one loop: equal ranges, equal surrounding
// loops, equal nesting level. If a group uses a RANGE of an earlier group, gives it new RANGEs; one
// group a call.
UOp SeparateOnce(UOpContext& ctx, UOp sink) {
  const Places places(ctx, sink);
  using Key = std::tuple<int, Ranges, Ranges>;
  std::map<Key, std::vector<UOp>> loops;
  std::vector<Key> keys;
  int64_t next_id = 0;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::RANGE)) next_id = std::max(next_id, u.axis_id() + 1);
    if (!u.Is(kLoopers)) continue;
    Key key{places.level.at(u.id()), places.along.at(u.id()), {}};
    for (UOp r : u.closed()) std::get<2>(key).push_back(r.id());
    std::vector<UOp>& mine = loops[key];
    if (mine.empty()) keys.push_back(key);
    mine.push_back(u);
  }
  absl::flat_hash_set<uint32_t> taken;
  for (const Key& key : keys) {
    ir::Substitution fresh;
    std::vector<UOp> shared;
    const std::vector<UOp>& mine = loops.at(key);
    for (UOp r : mine[0].closed()) {
      if (taken.insert(r.id()).second) continue;
      fresh[r.id()] = ir::Range(ctx, r.src(0), next_id++, r.axis_type());
      shared.push_back(r);
    }
    if (fresh.empty()) continue;
    ir::Substitution map;
    for (UOp u : mine) {
      ir::SymbolicDims srcs;
      for (UOp s : u.body()) srcs.push_back(ReplaceInside(ctx, places, s, shared, fresh));
      for (UOp r : u.closed()) {
        const auto it = fresh.find(r.id());
        srcs.push_back(it == fresh.end() ? r : it->second);
      }
      map[u.id()] = ctx.WithSources(u, srcs);
    }
    return ir::Substitute(ctx, sink, map);
  }
  return sink;
}

}  // namespace

UOp PrepareStages(UOpContext& ctx, UOp sink) {
  const auto order = ir::Toposort(ctx, sink);
  if (std::none_of(order.begin(), order.end(), [](UOp u) { return u.Is(Op::STAGE); })) return sink;
  for (UOp before; before != sink && !ctx.Interrupted(64);) {
    before = sink;
    sink = ForwardOnce(ctx, sink);
  }
  for (UOp before; before != sink && !ctx.Interrupted(64);) {
    before = sink;
    sink = SeparateOnce(ctx, sink);
  }
  return sink;
}

}  // namespace uopd::codegen
