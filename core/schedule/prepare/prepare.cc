// SPDX-License-Identifier: MIT
#include "core/schedule/prepare/prepare.h"

#include <algorithm>
#include <optional>

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/shape.h"
#include "core/schedule/prepare/cut_reduce.h"
#include "core/schedule/prepare/softmax_product.h"
#include "core/schedule/prepare/split_for_blocks.h"
#include "core/schedule/prepare/split_reduce.h"
#include "core/schedule/prepare/split_scan.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::OpSet;
using ir::UOp;
using ir::UOpContext;

// True if the elements of u are consecutive elements of a buffer, in the same order.
bool IsInMemory(UOpContext& ctx, UOp u) {
  while (true) {
    if (u.Is(OpSet{Op::PARAM, Op::CONTIGUOUS, Op::COPY})) return true;
    if (u.Is(Op::RESHAPE)) {
      u = u.src(0);
    } else if (u.Is(Op::SHRINK)) {
      // Only the outermost axis may be cut.
      const ir::Shape in = *ctx.ShapeOf(u.src(0)), out = *ctx.ShapeOf(u);
      for (size_t i = 1; i < in.size(); ++i) {
        if (in[i] != out[i]) return false;
      }
      u = u.src(0);
    } else if (u.Is(Op::AFTER)) {
      u = u.src(0);
    } else {
      return false;
    }
  }
}

// The REDUCE u as two if that is cheaper (split_reduce.h, split_for_blocks.h); else u. `is_spread`:
// values of more elements are computed from the result.
UOp SplitReduce(UOpContext& ctx, Accesses& accesses, UOp u, const Options& options,
                bool is_spread) {
  const KernelLimits& limits = options.LimitsFor(u.src(0));
  const bool blocks = limits.units > 0;
  const std::optional<Cut> cut =
      blocks ? CutForBlocks(ctx, accesses, u, limits) : CutForThreads(ctx, u, options, limits);
  // Every block that uses the result would combine the chunks anew.
  return cut ? CutReduce(ctx, u, *cut, blocks && is_spread) : u;
}

// By id: whether values of more elements are computed from the elements of the node, without a
// reduction between.
std::vector<bool> SpreadNodes(UOpContext& ctx, const std::vector<UOp>& order) {
  std::vector<bool> out(ctx.size(), false);
  for (size_t i = order.size(); i-- > 0;) {
    const UOp u = order[i];
    const bool computes = u.Is(ir::kElementwiseOps) || u.Is(ir::kMovementOps);
    if (!computes || ctx.ShapeOf(u) == nullptr) continue;
    const ir::Dims mine = ir::MaxDims(ctx, *ctx.ShapeOf(u));
    for (UOp s : u.srcs()) {
      if (!s.Is(Op::REDUCE) && !s.Is(ir::kElementwiseOps) && !s.Is(ir::kMovementOps)) continue;
      if (ctx.ShapeOf(s) == nullptr) continue;
      out[s.id()] = out[s.id()] || out[u.id()] ||
                    ir::Product(ir::MaxDims(ctx, *ctx.ShapeOf(s))) < ir::Product(mine);
    }
  }
  return out;
}

// The STACK u as a WHERE over the position along the new axis: a STACK of the first half of the
// sources, and one of the rest, recursively down to `most` sources.
UOp SplitStack(UOpContext& ctx, UOp u, size_t most) {
  const size_t n = u.n_src();
  if (n <= most) return u;
  const size_t half = n / 2;
  ir::SymbolicDims shape(ctx.ShapeOf(u)->begin(), ctx.ShapeOf(u)->end());
  const UOp whole = ir::ShapeArg(ctx, shape);
  auto part = [&](size_t from, size_t to) {
    const UOp stack =
        SplitStack(ctx, ctx.Make(Op::STACK, u.dtype(), u.srcs().subspan(from, to - from)), most);
    ir::SymbolicDims before(shape.size(), ctx.Idx(0));
    before[0] = ctx.Idx(static_cast<int64_t>(from));
    return ir::Pad(ctx, stack, ir::ShapeArg(ctx, before), whole);
  };
  const UOp place = ir::Iota(ctx, ir::Dtype::I32, whole, 0);
  const UOp first = ir::Lt(ctx, place, ctx.Int(ir::Dtype::I32, static_cast<ir::Int128>(half)));
  return ir::Where(ctx, first, part(0, half), part(half, n));
}

}  // namespace

UOp Prepare(UOpContext& ctx, Accesses& accesses, const std::vector<UOp>& order,
            const Options& options) {
  // The device of a STACK is not known yet, so the lowest limit of all devices counts.
  int fewest = options.limits.max_buffers;
  for (const auto& [name, limits] : options.limits_of)
    fewest = std::min(fewest, limits.max_buffers);
  const auto stack = static_cast<size_t>(std::clamp(fewest, 4, 18) - 2);
  std::vector<UOp> done(ctx.size());
  // By id: values computed from positions (IOTA). A sum of such values may pick a single element
  // (picks.h), which two REDUCEs would hide, so it is not split.
  std::vector<bool> counts(ctx.size(), false);
  const std::vector<bool> spread = SpreadNodes(ctx, order);
  const std::vector<bool> whole = FindOnlineNodes(ctx, order, options).reduces;
  ir::SymbolicDims srcs;
  for (UOp u : order) {
    if (ctx.Interrupted()) return order.back();
    srcs.clear();
    bool counting = u.Is(Op::IOTA);
    for (UOp s : u.srcs()) {
      srcs.push_back(done[s.id()]);
      counting |= counts[s.id()];
    }
    counts[u.id()] =
        counting && (u.Is(Op::IOTA) || u.Is(ir::kElementwiseOps) || u.Is(ir::kMovementOps));
    if (u.Is(OpSet{Op::BIND, Op::DETACH, Op::CONTIGUOUS_BACKWARD})) {
      done[u.id()] = srcs[0];
      continue;
    }
    UOp made = ctx.WithSources(u, srcs);
    if (made.Is(Op::CONTIGUOUS) && IsInMemory(ctx, srcs[0])) {
      made = srcs[0];
    } else if (made.Is(Op::REDUCE) && !(counting && made.reduce_op() == Op::ADD) &&
               !whole[u.id()]) {
      made = SplitReduce(ctx, accesses, made, options, spread[u.id()]);
    } else if (made.Is(Op::SCAN)) {
      const KernelLimits& limits = options.LimitsFor(made);
      if (limits.units > 0) made = SplitScan(ctx, made, limits);
    } else if (made.Is(Op::STORE) && u.src(1).Is(Op::SCAN) && srcs[1].Is(Op::RESHAPE)) {
      // Cut running sums are stored by the kernel that computes them, into a view of the target.
      const UOp scan = srcs[1].src(0);
      const UOp target = ir::Reshape(ctx, srcs[0], ir::ShapeArg(ctx, *ctx.ShapeOf(scan)));
      made = ctx.Make(Op::STORE, u.dtype(), {target, scan}, u.arg(), u.tag());
    } else if (made.Is(Op::STACK) && u.dtype() != ir::Dtype::Index) {
      made = SplitStack(ctx, made, stack);
    }
    done[u.id()] = made;
  }
  return done[order.back().id()];
}

using ir::Dtype;
using ir::UOp;

UOp LowerFloatVariables(ir::UOpContext& ctx, std::span<const UOp> order) {
  ir::Substitution map;
  for (UOp u : order) {
    if (!ir::IsFloat(u.dtype())) continue;
    if (u.Is(ir::Op::BIND)) {
      const UOp variable = map.at(u.src(0).id());  // before the table grows
      map[u.id()] = variable;
    }
    if (!u.Is(ir::Op::DEFINE_VAR)) continue;
    const UOp bits = ir::Variable(ctx, u.text(), INT64_MIN, INT64_MAX);
    const UOp wide = ir::Bitcast(ctx, ir::Cast(ctx, bits, Dtype::I64), Dtype::F64);
    map[u.id()] = ir::Cast(ctx, wide, u.dtype());
  }
  return ir::Substitute(ctx, order.back(), map);
}

}  // namespace uopd::schedule
