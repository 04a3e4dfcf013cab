// SPDX-License-Identifier: MIT
#include "core/rules/ranges.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/compare.h"

namespace uopd::rules {
namespace {

using ir::Op;
using ir::OpSet;
using ir::UOp;
using ir::UOpContext;

// An inner loop shorter than this is not worth splitting off.
constexpr int64_t kMinInner = 8;

// root with `range` replaced: by `value` in expressions, by `ranges` where a node closes it.
UOp Replace(UOpContext& ctx, UOp root, UOp range, UOp value, std::span<const UOp> ranges) {
  absl::flat_hash_map<uint32_t, UOp> done;
  ir::SymbolicDims srcs;
  for (UOp u : ir::Toposort(ctx, root)) {
    if (u == range) {
      done[u.id()] = value;
      continue;
    }
    srcs.clear();
    for (size_t i = 0; i < u.n_src(); ++i) {
      if (i >= u.n_body() && u.src(i) == range)
        srcs.insert(srcs.end(), ranges.begin(), ranges.end());
      else
        srcs.push_back(done.at(u.src(i).id()));
    }
    done[u.id()] = ctx.WithSources(u, srcs);
  }
  return done.at(root.id());
}

int CountDivisions(const UOpContext& ctx, UOp root) {
  int n = 0;
  for (UOp u : ir::Toposort(ctx, root)) n += u.Is(OpSet{Op::FLOORDIV, Op::FLOORMOD});
  return n;
}

// The values of `range`, closed by `closer`, for which the body of the loop does something.
ir::Bounds NeededSteps(UOpContext& ctx, UOp closer, UOp range) {
  ir::Bounds needed = ctx.BoundsOf(range);
  UOp gate;
  const UOp body = closer.src(0);
  if (closer.Is(Op::REDUCE)) {
    if (closer.reduce_op() != Op::ADD) return needed;
    if (body.Is(Op::WHERE) && body.src(2).IsConst(0)) gate = body.src(0);
    if (body.Is(Op::LOAD) && body.src(0).n_src() == 3) gate = body.src(0).src(2);
  } else if (closer.Is(Op::STAGE)) {
    gate = closer.src(2);
  } else if (body.Is(Op::STORE) && body.src(0).n_src() == 3) {
    gate = body.src(0).src(2);
  }
  if (!gate) return needed;
  ForEachPart(gate, true, [&](UOp c, bool holds) {
    if (const auto b = AsBound(ctx, c, holds); b && b->value == range) {
      needed.min = std::max(needed.min, b->bounds.min);
      needed.max = std::min(needed.max, b->bounds.max);
    }
    return true;
  });
  return needed;
}

class Tidier {
 public:
  Tidier(UOpContext& ctx, rewrite::Rewriter& simplify, UOp sink, int64_t next_id)
      : ctx_(ctx), simplify_(simplify), sink_(sink), next_id_(next_id) {}

  UOp Run() {
    while (Shrink() || Split()) {
    }
    return sink_;
  }

 private:
  UOp NewRange(int64_t size, UOp like) {
    return ir::Range(ctx_, ctx_.Idx(size), next_id_++, like.axis_type());
  }

  // By range id: the number of nodes that close the range or scan along it. Only a range with one
  // of them may change.
  absl::flat_hash_map<uint32_t, int> Closers(const std::vector<UOp>& order) const {
    absl::flat_hash_map<uint32_t, int> n;
    for (UOp u : order) {
      for (UOp r : u.closed()) ++n[r.id()];
      for (UOp r : u.scanned()) ++n[r.id()];
    }
    return n;
  }
  // Whether r is a RANGE of constant size and index dtype.
  static bool IsPlain(UOp r) {
    return r.Is(Op::RANGE) && r.n_src() == 1 && r.src(0).Is(Op::CONST) &&
           r.dtype() == ir::Dtype::Index;
  }

  bool Shrink() {
    const auto order = ir::Toposort(ctx_, sink_);
    const auto closers = Closers(order);
    for (UOp u : order) {
      for (UOp r : u.closed()) {
        if (!IsPlain(r) || closers.at(r.id()) != 1) continue;
        const ir::Bounds needed = NeededSteps(ctx_, u, r);
        if (!needed.known() || needed.max - needed.min + 1 >= r.src(0).const_int()) continue;
        const UOp fresh = NewRange(static_cast<int64_t>(needed.max - needed.min + 1), r);
        const UOp value = ir::Add(ctx_, fresh, ctx_.Int(ir::Dtype::Index, needed.min));
        sink_ = simplify_.Run(Replace(ctx_, sink_, r, value, std::span(&fresh, 1)));
        return true;
      }
    }
    return false;
  }

  bool Split() {
    const auto order = ir::Toposort(ctx_, sink_);
    absl::flat_hash_set<uint32_t> scanned;
    for (UOp u : order) {
      for (UOp r : u.scanned()) scanned.insert(r.id());
    }
    int before = -1;
    for (UOp u : order) {
      if (!u.Is(OpSet{Op::FLOORDIV, Op::FLOORMOD}) || !IsPlain(u.src(0))) continue;
      const UOp r = u.src(0);
      if (scanned.contains(r.id())) continue;
      if (!u.src(1).Is(Op::CONST)) continue;
      const int64_t c = u.src(1).const_int(), size = r.src(0).const_int();
      if (c < kMinInner || size % c != 0 || size / c < 2) continue;
      if (!tried_.insert({r.id(), c}).second) continue;
      const UOp outer = NewRange(size / c, r), inner = NewRange(c, r);
      const UOp both[] = {outer, inner};
      const UOp value = ir::Add(ctx_, ir::Mul(ctx_, outer, ctx_.Idx(c)), inner);
      const UOp candidate = simplify_.Run(Replace(ctx_, sink_, r, value, both));
      if (before < 0) before = CountDivisions(ctx_, sink_);
      if (CountDivisions(ctx_, candidate) >= before) continue;
      sink_ = candidate;
      return true;
    }
    return false;
  }

  UOpContext& ctx_;
  rewrite::Rewriter& simplify_;
  UOp sink_;
  int64_t next_id_;
  absl::flat_hash_set<std::pair<uint32_t, int64_t>> tried_;
};

}  // namespace

UOp TidyRanges(UOpContext& ctx, rewrite::Rewriter& simplify, UOp sink, int64_t next_id) {
  return Tidier(ctx, simplify, sink, next_id).Run();
}

}  // namespace uopd::rules
