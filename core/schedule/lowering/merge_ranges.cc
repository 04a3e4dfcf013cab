// SPDX-License-Identifier: MIT
#include "core/schedule/lowering/kernel_ranges.h"

#include "absl/container/flat_hash_set.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/tables/node_index.h"

namespace uopd::schedule {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;
using ir::UOpContext;

constexpr ir::OpSet kDivisions = {Op::FLOORDIV, Op::FLOORMOD};

int CountDivisions(const UOpContext& ctx, UOp root) {
  int n = 0;
  for (UOp u : ir::Toposort(ctx, root)) n += u.Is(kDivisions);
  return n;
}

// True if one range over both may replace a and b in the sum `index`: the factor of a is the factor
// of b times the size of b, or that is not known.
bool MayMerge(UOp index, UOp a, UOp b) {
  const ir::Int128 inner = b.src(0).const_int();
  ir::Int128 of_a = 0, of_b = 0;
  absl::InlinedVector<UOp, 8> terms = {index};
  while (!terms.empty()) {
    const UOp t = terms.back();
    terms.pop_back();
    if (t.Is(Op::ADD)) {
      terms.push_back(t.src(0));
      terms.push_back(t.src(1));
      continue;
    }
    const bool scaled = t.Is(Op::MUL) && t.src(1).Is(Op::CONST);
    const UOp x = scaled ? t.src(0) : t;
    const ir::Int128 factor = scaled ? ir::Int128{t.src(1).const_int()} : 1;
    if (x == a)
      of_a += factor;
    else if (x == b)
      of_b += factor;
    else if (!x.Is(ir::OpSet{Op::RANGE, Op::CONST, Op::DEFINE_VAR}))
      return true;  // x may contain a and b
  }
  return of_a == of_b * inner;
}

// All indices and gates of the kernel, as the sources of one node.
UOp Addresses(UOpContext& ctx, const std::vector<UOp>& order) {
  ir::SymbolicDims all;
  for (UOp u : order) {
    if (u.Is(Op::INDEX)) all.insert(all.end(), u.srcs().begin() + 1, u.srcs().end());
    if (u.Is(Op::STAGE)) all.insert(all.end(), u.srcs().begin() + 1, u.srcs().begin() + 3);
  }
  return ctx.Make(Op::GROUP, Dtype::Void, all);
}

class Merger {
 public:
  Merger(UOpContext& ctx, rewrite::Rewriter& simplify, UOp sink)
      : ctx_(ctx), simplify_(simplify), sink_(sink) {}

  // Merges the first pair of neighbours that can be merged, until there is none.
  UOp Run() {
    while (RunOnce()) {
    }
    return sink_;
  }

 private:
  bool RunOnce() {
    order_ = ir::Toposort(ctx_, sink_);
    addresses_ = Addresses(ctx_, order_);
    divisions_ = CountDivisions(ctx_, sink_);
    address_divisions_ = CountDivisions(ctx_, addresses_);
    absl::flat_hash_set<uint32_t> scanned;
    for (UOp u : order_) {
      for (UOp r : u.scanned()) scanned.insert(r.id());
    }
    for (UOp u : order_) {
      for (size_t i = u.n_body(); i + 1 < u.n_src(); ++i) {
        if (ctx_.Interrupted(16)) return false;
        if (scanned.contains(u.src(i).id()) || scanned.contains(u.src(i + 1).id())) continue;
        if (MergePair(u.src(i), u.src(i + 1))) return true;
      }
    }
    return false;
  }

  // Replaces the ranges a and b, of which b is the inner one, by one range over both. False if they
  // must stay.
  bool MergePair(UOp a, UOp b) {
    if (!a.src(0).Is(Op::CONST) || !b.src(0).Is(Op::CONST) || a.axis_type() != b.axis_type())
      return false;
    const UOp inner = b.src(0);
    const ir::Int128 size = ir::Int128{a.src(0).const_int()} * inner.const_int();
    if (size >= ir::Int128{1} << 40) return false;
    // First the cheap tests, on addresses alone: most pairs fail them.
    for (UOp at : addresses_.srcs()) {
      if (at.dtype() == Dtype::Index && !MayMerge(at, a, b)) return false;
    }
    const UOp merged = ir::Range(ctx_, ctx_.Int(Dtype::Index, size), next_id_, a.axis_type());
    ir::Substitution map;
    map[a.id()] = ir::Alu(ctx_, Op::FLOORDIV, {merged, inner});
    map[b.id()] = ir::Alu(ctx_, Op::FLOORMOD, {merged, inner});
    if (CountDivisions(ctx_, simplify_.Run(ir::Substitute(ctx_, addresses_, map))) >
        address_divisions_) {
      return false;
    }
    const UOp candidate = simplify_.Run(Replaced(map, a, b, merged));
    if (CountDivisions(ctx_, candidate) > divisions_) return false;
    sink_ = candidate;
    ++next_id_;
    return true;
  }

  // The kernel with a and b replaced by `map`. Where a node closes the two, it closes `merged`
  // instead: loops close over ranges, not over expressions.
  UOp Replaced(const ir::Substitution& map, UOp a, UOp b, UOp merged) {
    ir::NodeIndex position(ctx_.size());
    std::vector<UOp> done;
    ir::SymbolicDims srcs;
    for (UOp u : order_) {
      position.Set(u, static_cast<uint32_t>(done.size()));
      if (u == a || u == b) {
        done.push_back(map.at(u.id()));
        continue;
      }
      srcs.clear();
      for (size_t i = 0; i < u.n_src(); ++i) {
        const UOp s = u.src(i);
        const bool closed = i >= u.n_body();
        if (closed && s == a)
          srcs.push_back(merged);
        else if (!closed || s != b)
          srcs.push_back(done[position[s]]);
      }
      done.push_back(ctx_.WithSources(u, srcs));
    }
    return done.back();
  }

  UOpContext& ctx_;
  rewrite::Rewriter& simplify_;
  UOp sink_;
  int64_t next_id_ = int64_t{1} << 32;  // axis id of the next merged range; no kernel has it yet
  // Facts about sink_, for one round.
  std::vector<UOp> order_;
  UOp addresses_;
  int divisions_ = 0, address_divisions_ = 0;
};

}  // namespace

UOp MergeRanges(UOpContext& ctx, rewrite::Rewriter& simplify, UOp sink) {
  return Merger(ctx, simplify, sink).Run();
}

}  // namespace uopd::schedule
