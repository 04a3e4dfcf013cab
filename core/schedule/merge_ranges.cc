// SPDX-License-Identifier: MIT
#include "core/schedule/merge_ranges.h"

#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::schedule {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;
using ir::UOpContext;

int CountDivisions(const UOpContext& ctx, UOp root) {
  int n = 0;
  for (UOp u : ir::Toposort(ctx, root)) n += u.Is(ir::OpSet{Op::FLOORDIV, Op::FLOORMOD});
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
      terms.push_back(t.src(0)), terms.push_back(t.src(1));
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
UOp Addresses(UOpContext& ctx, UOp sink) {
  ir::SymbolicDims all;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::INDEX)) all.insert(all.end(), u.srcs().begin() + 1, u.srcs().end());
    if (u.Is(Op::STAGE)) all.insert(all.end(), u.srcs().begin() + 1, u.srcs().begin() + 3);
  }
  return ctx.Make(Op::GROUP, Dtype::Void, all);
}

// Replaces two nested ranges a, b by one over both, if no index gets harder. `addresses` are those
// of the sink.
bool MergePair(UOpContext& ctx, rewrite::Rewriter& simplify, UOp& sink, UOp addresses, UOp a, UOp b,
               int64_t& next_id) {
  if (!a.src(0).Is(Op::CONST) || !b.src(0).Is(Op::CONST) || a.axis_type() != b.axis_type())
    return false;
  const UOp inner = b.src(0);
  const ir::Int128 size = ir::Int128{a.src(0).const_int()} * inner.const_int();
  if (size >= ir::Int128{1} << 40) return false;
  const UOp merged = ir::Range(ctx, ctx.Int(Dtype::Index, size), next_id, a.axis_type());
  ir::Substitution map;
  map[a.id()] = ir::Alu(ctx, Op::FLOORDIV, {merged, inner});
  map[b.id()] = ir::Alu(ctx, Op::FLOORMOD, {merged, inner});
  // Most pairs fail, and do so where elements are addressed.
  for (UOp at : addresses.srcs()) {
    if (at.dtype() == Dtype::Index && !MayMerge(at, a, b)) return false;
  }
  if (CountDivisions(ctx, simplify.Run(ir::Substitute(ctx, addresses, map))) >
      CountDivisions(ctx, addresses)) {
    return false;
  }
  // Loops close over ranges, not over expressions: what closes them gets the merged range instead
  // of the pair.
  absl::flat_hash_map<uint32_t, UOp> done;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (auto it = map.find(u.id()); it != map.end()) {
      done[u.id()] = it->second;
      continue;
    }
    ir::SymbolicDims srcs;
    for (size_t i = 0; i < u.n_src(); ++i) {
      const UOp s = u.src(i);
      const bool closed = i >= u.n_body();
      if (closed && s == a)
        srcs.push_back(merged);
      else if (closed && s == b)
        continue;
      else
        srcs.push_back(done.at(s.id()));
    }
    done[u.id()] = ctx.WithSources(u, srcs);
  }
  const UOp candidate = simplify.Run(done.at(sink.id()));
  if (CountDivisions(ctx, candidate) > CountDivisions(ctx, sink)) return false;
  sink = candidate;
  ++next_id;
  return true;
}

}  // namespace

// Ranges closed by the same node, neighbours first to last, until nothing merges.
UOp MergeRanges(UOpContext& ctx, rewrite::Rewriter& simplify, UOp sink) {
  int64_t next_id = int64_t{1} << 32;
  for (bool again = true; again;) {
    again = false;
    const UOp addresses = Addresses(ctx, sink);
    for (UOp u : ir::Toposort(ctx, sink)) {
      for (size_t i = u.n_body(); i + 1 < u.n_src() && !again; ++i)
        again = MergePair(ctx, simplify, sink, addresses, u.src(i), u.src(i + 1), next_id);
      if (again) break;
    }
  }
  return sink;
}

}  // namespace uopd::schedule
