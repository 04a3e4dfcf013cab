// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/passes/threads/shared_stage.h"

#include <algorithm>
#include <tuple>

#include "absl/container/flat_hash_set.h"
#include "core/codegen/attention/online/online.h"
#include "core/codegen/passes/rebuild.h"
#include "core/codegen/passes/stages.h"
#include "core/codegen/passes/vectors/vectorise.h"
#include "core/ir/graph.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;
using rules::IndexProduct;
using rules::IndexSum;

constexpr int64_t kMostLanes = 4;  // of the vectors that fill an array

bool ClosesLocal(UOp u) { return std::ranges::any_of(u.closed(), IsLocalRange); }

// value with `map` applied, outside of the STAGEs that it loads from. If there is a gate, loads
// that depend on what is replaced are 0 where it does not hold. Others stay: all threads may need
// them together.
UOp ReplaceOutsideStages(ir::UOpContext& ctx, UOp value, const ir::Substitution& map,
                         UOp maybe_gate = UOp()) {
  absl::flat_hash_map<uint32_t, UOp> done;
  absl::flat_hash_set<uint32_t> changed;
  std::vector<UOp> srcs;
  const auto enter = [&](UOp n) { return !n.Is(Op::STAGE) && !map.contains(n.id()); };
  for (UOp n : ir::Toposort(ctx, std::span<const UOp>(&value, 1), enter)) {
    if (const auto it = map.find(n.id()); it != map.end()) {
      done[n.id()] = it->second;
      changed.insert(n.id());
      continue;
    }
    if (n.Is(Op::STAGE)) {
      done[n.id()] = n;
      continue;
    }
    srcs.clear();
    bool mine = false;
    for (UOp s : n.srcs()) {
      srcs.push_back(done.at(s.id()));
      mine |= changed.contains(s.id());
    }
    if (mine) changed.insert(n.id());
    done[n.id()] = n.Is(Op::INDEX) && mine && maybe_gate
                       ? ir::Index(ctx, srcs[0], srcs[1],
                                   MaybeBoth(ctx, srcs.size() == 3 ? srcs[2] : UOp(), maybe_gate),
                                   n.arg().AsInt())
                       : rules::WithIndexSources(ctx, n, srcs);
  }
  return done.at(value.id());
}

// The nodes of `roots` that depend on one of `ranges`.
absl::flat_hash_set<uint32_t> Dependent(const ir::UOpContext& ctx, std::span<const UOp> roots,
                                        std::span<const UOp> ranges) {
  absl::flat_hash_set<uint32_t> out;
  for (UOp n : ir::Toposort(ctx, roots)) {
    const bool mine = std::ranges::find(ranges, n) != ranges.end() ||
                      std::ranges::any_of(n.srcs(), [&](UOp s) { return out.contains(s.id()); });
    if (mine) out.insert(n.id());
  }
  return out;
}

// How far the loads of buffers in `value` step along a range: the least distance in elements, 0 if
// none depends on it.
int64_t LeastStride(ir::UOpContext& ctx, UOp value, UOp range) {
  int64_t least = 0;
  for (UOp n : ir::Toposort(ctx, value)) {
    if (!n.Is(Op::LOAD) || !n.src(0).src(0).Is(Op::PARAM)) continue;
    const auto stride = StrideAlong(ctx, n.src(0).src(1), range);
    const int64_t mine = stride ? std::abs(*stride) : int64_t{1} << 30;
    if (mine != 0 && (least == 0 || mine < least)) least = mine;
  }
  return least;
}

}  // namespace

UOp ShareStages(ir::UOpContext& ctx, UOp sink, int64_t& next_id) {
  const ThreadBits bits(ctx, sink);
  const auto states = StatesOf(ctx, sink);
  return Rebuild(ctx, sink, [&](UOp u, std::span<const UOp> s) -> UOp {
    const auto flat = [&](const std::vector<UOp>& ranges, int64_t elements, UOp index) {
      UOp at = ctx.Idx(0);
      for (UOp r : ranges) at = IndexSum(ctx, IndexProduct(ctx, at, r.src(0)), r);
      return IndexSum(ctx, IndexProduct(ctx, at, ctx.Idx(elements)), index);
    };
    const UOp state = u.Is(Op::INDEX) ? MaybeState(u.src(0)) : UOp();
    if (u.Is(Op::INDEX) && (state || u.src(0).Is(Op::STAGE))) {
      const UOp stage = state ? states.at(state.id()) : u.src(0);
      if (stage.tag() == kThreadStage) return ctx.WithSources(u, s);
      return ir::Index(ctx, s[0], flat(bits.Along(stage), stage.arg().AsInt(), s[1]),
                       s.size() == 3 ? s[2] : UOp(), u.arg().AsInt());
    }
    if (!u.Is(Op::STAGE) || u.tag() == kThreadStage) return ctx.WithSources(u, s);
    std::vector<UOp> open = bits.Along(u), srcs(s.begin(), s.end());
    int64_t copies = 1;
    for (UOp r : open) copies *= r.src(0).const_int();
    const bool dealt = !ClosesLocal(u);
    if (dealt) {
      ir::Substitution fresh;
      for (UOp& r : open) {
        const UOp mine = Range(ctx, r.src(0), next_id++, AxisType::REDUCE);
        fresh[r.id()] = mine;
        r = mine;
      }
      for (size_t i = 0; i < u.n_body(); ++i) srcs[i] = ReplaceOutsideStages(ctx, srcs[i], fresh);
      srcs.insert(srcs.begin() + static_cast<std::ptrdiff_t>(u.n_body()), open.begin(), open.end());
    }
    srcs[1] = flat(open, u.arg().AsInt(), srcs[1]);
    return ctx.Make(Op::STAGE, u.dtype(), srcs, ir::Arg::Int(u.arg().AsInt() * copies),
                    dealt ? kDealtStage : kSharedStage);
  });
}

bool CanBeDealt(const ir::UOpContext& ctx, UOp stage) {
  const auto depends = Dependent(ctx, stage.body(), stage.closed());
  return std::ranges::none_of(ir::Toposort(ctx, stage.body()), [&](UOp n) {
    return depends.contains(n.id()) && (n.Is(Op::STAGE) || ClosesLocal(n));
  });
}

UOp DealStage(ir::UOpContext& ctx, UOp stage, const ThreadDigits& digits, const Target& target,
              int64_t& next_id) {
  // Slowest first.
  std::vector<std::tuple<int64_t, size_t, UOp>> order;
  std::vector<UOp> loops;  // iterations that store the same elements: one thread runs all of them
  bool has_vectors = false;
  for (size_t i = 0; i < stage.closed().size(); ++i) {
    const UOp r = stage.closed()[i];
    if (!ir::Reaches(ctx, stage.src(1), r)) {
      loops.push_back(r);
      continue;
    }
    const int64_t stride = LeastStride(ctx, stage.src(0), r);
    order.emplace_back(stride == 0 ? INT64_MIN : -stride, i, r);
    has_vectors |= r.axis_type() == AxisType::VECTOR;
  }
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(std::get<0>(a), std::get<1>(a)) < std::pair(std::get<0>(b), std::get<1>(b));
  });
  for (UOp n : ir::Toposort(ctx, stage.body()))
    has_vectors |= n.Is(Op::RANGE) && n.axis_type() == AxisType::VECTOR;
  int64_t lanes = 1;
  if (!order.empty() && !has_vectors && std::get<0>(order.back()) == -1) {
    const UOp size = std::get<2>(order.back()).src(0);
    const int64_t most = std::min<int64_t>(
        kMostLanes, target.vector_bytes / std::max<int64_t>(1, ir::ByteSize(stage.dtype())));
    while (size.Is(Op::CONST) && lanes * 2 <= most && size.const_int() % (lanes * 2) == 0)
      lanes *= 2;
  }
  UOp total = ctx.Idx(1);  // vectors
  for (const auto& [stride, i, r] : order) {
    const bool fastest = r == std::get<2>(order.back());
    total = IndexProduct(ctx, total,
                         fastest && lanes > 1 ? ctx.Idx(r.src(0).const_int() / lanes) : r.src(0));
  }
  const int64_t threads = digits.threads();
  const bool constant = total.Is(Op::CONST);
  const UOp turns = constant
                        ? ctx.Idx((total.const_int() + threads - 1) / threads)
                        : ir::Alu(ctx, Op::FLOORDIV,
                                  {IndexSum(ctx, total, ctx.Idx(threads - 1)), ctx.Idx(threads)});
  const bool unrolled = constant && turns.const_int() <= kMostTurns;
  const UOp turn = Range(ctx, turns, next_id++, unrolled ? AxisType::UNROLL : AxisType::REDUCE);
  UOp number = IndexSum(ctx, IndexProduct(ctx, turn, ctx.Idx(threads)), digits.thread());
  const UOp gate = constant && total.const_int() % threads == 0 ? UOp() : Lt(ctx, number, total);
  std::vector<UOp> closed = {turn};
  ir::Substitution map;
  for (size_t i = order.size(); i-- > 0;) {
    const UOp r = std::get<2>(order[i]);
    UOp size = r.src(0);
    const bool vector = i + 1 == order.size() && lanes > 1;
    if (vector) size = ctx.Idx(size.const_int() / lanes);
    UOp digit = number;
    if (i > 0) {
      digit = ir::Alu(ctx, Op::FLOORMOD, {number, size});
      number = ir::Alu(ctx, Op::FLOORDIV, {number, size});
    }
    if (vector) {
      closed.push_back(Range(ctx, ctx.Idx(lanes), next_id++, AxisType::VECTOR));
      digit = IndexSum(ctx, IndexProduct(ctx, digit, ctx.Idx(lanes)), closed.back());
    }
    map[r.id()] = digit;
  }
  std::vector<UOp> body;
  for (UOp s : stage.body()) body.push_back(ReplaceOutsideStages(ctx, s, map, gate));
  if (gate) body[2] = And(ctx, body[2], gate);
  body.insert(body.end(), closed.begin(), closed.end());
  body.insert(body.end(), loops.begin(), loops.end());
  return ctx.Make(Op::STAGE, stage.dtype(), body, stage.arg(), kSharedStage);
}

}  // namespace uopd::codegen
