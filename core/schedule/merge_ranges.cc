// SPDX-License-Identifier: MIT
#include "core/schedule/merge_ranges.h"

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/node_index.h"

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

// False if the sum `index` has a and b in it with factors that one range over both cannot have.
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
      return true;  // they may be in there
  }
  return of_a == of_b * inner;
}

// Every index and gate of the kernel, as one node.
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

  // Neighbours first to last, until nothing merges.
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
    for (UOp u : order_) {
      for (size_t i = u.n_body(); i + 1 < u.n_src(); ++i) {
        if (ctx_.Interrupted(16)) return false;
        if (MergePair(u.src(i), u.src(i + 1))) return true;
      }
    }
    return false;
  }

  // Replaces two nested ranges a, b by one over both, if no index gets harder.
  bool MergePair(UOp a, UOp b) {
    if (!a.src(0).Is(Op::CONST) || !b.src(0).Is(Op::CONST) || a.axis_type() != b.axis_type())
      return false;
    const UOp inner = b.src(0);
    const ir::Int128 size = ir::Int128{a.src(0).const_int()} * inner.const_int();
    if (size >= ir::Int128{1} << 40) return false;
    // Most pairs fail, and do so where elements are addressed.
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

  // Loops close over ranges, not over expressions: what closes them gets the merged range instead
  // of the pair.
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
  int64_t next_id_ = int64_t{1} << 32;
  // Of the sink:
  std::vector<UOp> order_;
  UOp addresses_;
  int divisions_ = 0, address_divisions_ = 0;
};

}  // namespace

UOp MergeRanges(UOpContext& ctx, rewrite::Rewriter& simplify, UOp sink) {
  return Merger(ctx, simplify, sink).Run();
}

}  // namespace uopd::schedule
