// SPDX-License-Identifier: MIT
#include "core/codegen/passes/vectors/join_lanes.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/codegen/passes/combine.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;

// A JoinOf is a GEP of lane 0 whose tag is kJoinTag plus the wire number of the op.
constexpr int64_t kJoinTag = 1 << 8;

bool IsJoin(UOp u) { return u.Is(Op::GEP) && u.tag() >= kJoinTag; }
Op OpOf(UOp join) { return *ir::OpByWire(static_cast<uint64_t>(join.tag() - kJoinTag)); }

class Joiner {
 public:
  explicit Joiner(ir::UOpContext& ctx) : ctx_(ctx) {}

  UOp Run(UOp root) {
    for (UOp before; before != root && !ctx_.Interrupted(64);) {
      before = root;
      root = Innermost(root);
    }
    return root;
  }

 private:
  // Replaces the joins that do not depend on another join. Joins of one op, dtype, length, level
  // and set of ranges stand in the same place and are computed together.
  UOp Innermost(UOp root) {
    const auto order = ir::Toposort(ctx_, root);
    if (std::none_of(order.begin(), order.end(), IsJoin)) return root;
    struct Place {
      int level = 0;                // nesting of reductions and other closing ops below the node
      std::vector<uint32_t> along;  // ids of the ranges that the node depends on
    };
    absl::flat_hash_map<uint32_t, Place> places;
    absl::flat_hash_map<uint32_t, bool> has_join;
    std::map<std::tuple<int64_t, ir::Dtype, int64_t, int, std::vector<uint32_t>>, std::vector<UOp>>
        groups;
    for (UOp u : order) {
      Place& mine = places[u.id()];
      bool& joins = has_join[u.id()];
      if (u.Is(Op::RANGE)) mine.along.push_back(u.id());
      for (UOp s : u.body()) {
        const Place& from = places.at(s.id());
        std::vector<uint32_t> both;
        std::set_union(mine.along.begin(), mine.along.end(), from.along.begin(), from.along.end(),
                       std::back_inserter(both));
        mine.along = std::move(both);
        mine.level = std::max(mine.level, from.level);
        joins |= has_join.at(s.id());
      }
      for (UOp r : u.closed()) std::erase(mine.along, r.id());
      if (u.Is(ir::kClosingOps)) ++mine.level;
      if (!IsJoin(u)) continue;
      if (!joins)
        groups[{u.tag(), u.dtype(), Lanes(u.src(0)), mine.level, mine.along}].push_back(u);
      joins = true;
    }
    ir::Substitution map;
    for (const auto& [key, joins] : groups) {
      const std::span<const UOp> all = joins;
      for (size_t at = 0; at < all.size();) {
        auto n = static_cast<size_t>(std::get<2>(key));
        while (n > all.size() - at) n /= 2;
        Together(all.subspan(at, n), map);
        at += n;
      }
    }
    return map.empty() ? root : ir::Substitute(ctx_, root, map);
  }

  int64_t Lanes(UOp u) const { return (*ctx_.ShapeOf(u))[0].const_int(); }
  UOp Lane(UOp u, size_t k) {
    if (u.Is(Op::STACK)) return u.src(k);
    return ctx_.Make(Op::GEP, u.dtype(), {u}, ir::Arg::Int(static_cast<int64_t>(k)));
  }
  UOp Stack(const std::vector<UOp>& lanes) {
    return lanes.size() == 1 ? lanes[0] : ctx_.Make(Op::STACK, lanes[0].dtype(), lanes);
  }

  // Computes the joins, whose number is a power of two up to the number of lanes.
  //
  // Every vector consists of runs of `width` lanes; a run holds the partial results of one
  // join. A step combines the halves of each run and interleaves the results of two vectors into
  // one vector. When one vector is left, its runs are halved until each join has one lane.
  void Together(std::span<const UOp> joins, ir::Substitution& map) {
    const Op op = OpOf(joins[0]);
    std::vector<UOp> vectors;
    for (UOp j : joins) vectors.push_back(j.src(0));
    auto lanes = static_cast<size_t>(Lanes(vectors[0])), width = lanes;
    std::vector<UOp> part[2];
    for (; vectors.size() > 1; width /= 2) {
      const size_t half = vectors.size() / 2;
      for (size_t i = 0; i < half; ++i) {
        for (size_t h = 0; h < 2; ++h) {
          part[h].clear();
          for (size_t run = 0; run < lanes; run += width) {
            for (UOp v : {vectors[i], vectors[i + half]}) {
              for (size_t k = 0; k < width / 2; ++k)
                part[h].push_back(Lane(v, run + h * width / 2 + k));
            }
          }
        }
        vectors[i] = Combine(ctx_, op, Stack(part[0]), Stack(part[1]));
      }
      vectors.resize(half);
    }
    UOp all = vectors[0];
    for (; width > 1; width /= 2, lanes /= 2) {
      for (size_t h = 0; h < 2; ++h) {
        part[h].clear();
        for (size_t k = 0; k < lanes; ++k) {
          if ((k % width < width / 2) == (h == 0)) part[h].push_back(Lane(all, k));
        }
      }
      all = Combine(ctx_, op, Stack(part[0]), Stack(part[1]));
    }
    for (size_t i = 0; i < joins.size(); ++i)
      map[joins[i].id()] = joins.size() == 1 ? all : Lane(all, i);
  }

  ir::UOpContext& ctx_;
};

}  // namespace

UOp JoinOf(ir::UOpContext& ctx, Op op, UOp vector) {
  return ctx.Make(Op::GEP, vector.dtype(), {vector}, ir::Arg::Int(0),
                  kJoinTag + static_cast<int64_t>(ir::Info(op).wire));
}

UOp JoinLanes(ir::UOpContext& ctx, UOp root) { return Joiner(ctx).Run(root); }

}  // namespace uopd::codegen
