// SPDX-License-Identifier: MIT
#include "core/schedule/lowering/kernel_ranges.h"

#include "absl/container/flat_hash_set.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::UOp;
using ir::UOpContext;

constexpr ir::OpSet kQuotients = {Op::FLOORDIV, Op::FLOORMOD};

struct Division {
  UOp range;
  int64_t by = 0;
};

// Whether `by` divides the size of the range u.
bool IsDivided(UOp u, int64_t by) {
  if (!u.Is(Op::RANGE) || !u.src(0).Is(Op::CONST)) return false;
  const int64_t size = u.src(0).const_int();
  return by > 1 && by < size && size % by == 0;
}

// The first division of a range, or of a sum with one, by a constant that divides its size; a null
// range if there is none. A range that running sums run along stays whole.
Division FirstDivision(const std::vector<UOp>& order) {
  absl::flat_hash_set<uint32_t> scanned;
  for (UOp u : order) {
    for (UOp r : u.scanned()) scanned.insert(r.id());
  }
  for (const bool sums : {false, true}) {
    for (UOp u : order) {
      if (!u.Is(kQuotients) || !u.src(1).Is(Op::CONST)) continue;
      const int64_t by = u.src(1).const_int();
      UOp x = u.src(0);
      // A sum is added up from the left.
      while (sums && x.Is(Op::ADD) && !IsDivided(x.src(1), by)) x = x.src(0);
      if (x.Is(Op::ADD)) x = sums ? x.src(1) : x;
      if (IsDivided(x, by) && !scanned.contains(x.id())) return {x, by};
    }
  }
  return {};
}

// The number of quotients and remainders, and the number of long ranges that they depend on.
int CountQuotients(const UOpContext& ctx, const std::vector<UOp>& order) {
  constexpr int64_t kLong = 8;
  int n = 0;
  for (UOp u : order) {
    if (!u.Is(kQuotients)) continue;
    ++n;
    for (UOp x : ir::Toposort(ctx, u.src(0)))
      n += x.Is(Op::RANGE) && (!x.src(0).Is(Op::CONST) || x.src(0).const_int() > kLong);
  }
  return n;
}

}  // namespace

UOp SplitRanges(UOpContext& ctx, rewrite::Rewriter& simplify, UOp sink) {
  // Above the ids that TidyRanges and MergeRanges make: equal ids of equal sizes are one RANGE.
  int64_t next_id = int64_t{1} << 34;
  for (;;) {
    const auto order = ir::Toposort(ctx, sink);
    const Division division = FirstDivision(order);
    if (!division.range || ctx.Interrupted()) return sink;
    const UOp range = division.range, by = ctx.Idx(division.by);
    const UOp outer =
        ir::Range(ctx, ctx.Idx(range.src(0).const_int() / division.by), next_id, range.axis_type());
    const UOp inner = ir::Range(ctx, by, next_id + 1, range.axis_type());
    const UOp both = ir::Add(ctx, ir::Mul(ctx, outer, by), inner);
    next_id += 2;
    // Where a node closes the range, it closes the two instead.
    std::vector<UOp> done(ctx.size());
    ir::SymbolicDims srcs;
    for (UOp u : order) {
      srcs.clear();
      for (size_t i = 0; i < u.n_src(); ++i) {
        if (i >= u.n_body() && u.src(i) == range) {
          srcs.push_back(outer);
          srcs.push_back(inner);
        } else {
          srcs.push_back(u.src(i) == range ? both : done[u.src(i).id()]);
        }
      }
      done[u.id()] = ctx.WithSources(u, srcs);
    }
    const UOp split = simplify.Run(done[sink.id()]);
    if (CountQuotients(ctx, ir::Toposort(ctx, split)) >= CountQuotients(ctx, order)) return sink;
    sink = split;
  }
}

}  // namespace uopd::schedule
