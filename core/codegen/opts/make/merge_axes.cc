// SPDX-License-Identifier: MIT
#include "core/codegen/opts/make/merge_axes.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "core/codegen/passes/rebuild.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"
#include "core/rules/index_expr.h"
#include "core/rules/simplify.h"

namespace uopd::codegen {

using ir::AxisType;
using ir::Op;
using ir::UOp;

namespace {
constexpr int64_t kMostMerged =
    int64_t{1} << 40;  // iterations of a merged axis: indices stay far from 64 bits

// Whether the condition depends on ranges, variables and constants alone.
bool IsOfPlaces(const ir::UOpContext& ctx, UOp condition) {
  return std::ranges::none_of(ir::Toposort(ctx, condition),
                              [](UOp u) { return u.Is({Op::LOAD, Op::REDUCE}); });
}

// where(condition, value, otherwise) as a load with a gate, or null: `value` is a load, perhaps
// converted, and `otherwise` is +0, which conversions keep.
UOp MaybeGated(ir::UOpContext& ctx, UOp condition, UOp value, UOp otherwise) {
  UOp load = value;
  while (load.Is(Op::CAST)) load = load.src(0);
  if (!load.Is(Op::LOAD) || !otherwise.Is(Op::CONST)) return UOp();
  const bool zero = ir::IsFloat(otherwise.dtype())
                        ? otherwise.const_float() == 0 && !std::signbit(otherwise.const_float())
                        : otherwise.const_int() == 0;
  if (!zero || !IsOfPlaces(ctx, condition)) return UOp();
  const UOp at = load.src(0);
  const UOp gate = at.n_src() == 3 ? And(ctx, condition, at.src(2)) : condition;
  const UOp index =
      ir::Index(ctx, at.src(0), at.src(1), rules::Simplify(ctx, gate), at.arg().AsInt());
  const UOp out = ctx.Make(Op::LOAD, load.dtype(), {index}, load.arg(), load.tag());
  return ir::Substitute(ctx, value, {{load.id(), out}});
}

}  // namespace

std::string MaybeNoMerge(ir::UOpContext& ctx, UOp sink, UOp outer, UOp inner) {
  if (outer == inner) return "an axis cannot be merged with itself";
  if (outer.axis_type() != inner.axis_type()) return "one of the axes is reduced";
  const AxisType type = outer.axis_type();
  if (type != AxisType::LOOP && type != AxisType::REDUCE) return "the axes are no loops";
  if (!outer.src(0).Is(Op::CONST) || !inner.src(0).Is(Op::CONST))
    return "an axis has a symbolic size";
  const int64_t n = outer.src(0).const_int(), m = inner.src(0).const_int();
  if (n <= 1 || m <= 1) return "an axis has one iteration";
  if (n > kMostMerged / m) return "the axes are too long";
  absl::flat_hash_set<uint32_t> loaded, stored;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::STAGE)) return "the kernel stages values";
    if (u.Is(Op::SCAN)) return "the kernel has running sums";
    const auto closed = u.closed();
    const auto closes = [&](UOp r) { return std::ranges::find(closed, r) != closed.end(); };
    if (closes(outer) != closes(inner)) return "different statements or reductions close the axes";
    if (!u.Is({Op::LOAD, Op::STORE})) continue;
    if (const UOp base = ir::MaybeBaseOf(u.src(0).src(0)))
      (u.Is(Op::LOAD) ? loaded : stored).insert(base.id());
  }
  if (std::ranges::any_of(stored, [&](uint32_t id) { return loaded.contains(id); }))
    return "the kernel loads what it stores";
  return "";
}

UOp MergeAxes(ir::UOpContext& ctx, UOp sink, UOp outer, UOp inner) {
  const int64_t n = outer.src(0).const_int(), m = inner.src(0).const_int();
  const UOp merged = Range(ctx, ctx.Idx(n * m), outer.axis_id(), outer.axis_type());
  const UOp single =
      ctx.Make(Op::RANGE, ir::Dtype::Index, {ctx.Idx(1)},
               ctx.Data({inner.axis_id(), static_cast<int64_t>(inner.axis_type())}), kMergedAway);
  const UOp size = ctx.Idx(m);
  return Rebuild(ctx, sink, [&](UOp u, std::span<const UOp> srcs) -> UOp {
    if (u == outer) return ir::Alu(ctx, Op::FLOORDIV, {merged, size});
    if (u == inner) return ir::Alu(ctx, Op::FLOORMOD, {merged, size});
    if (u.Is(Op::INDEX) && !std::ranges::equal(u.srcs(), srcs)) {
      const UOp gate = srcs.size() == 3 ? rules::Simplify(ctx, srcs[2]) : UOp();
      return ir::Index(ctx, srcs[0], rules::Simplify(ctx, srcs[1]), gate, u.arg().AsInt());
    }
    if (u.Is(Op::WHERE)) {
      if (const UOp gated = MaybeGated(ctx, srcs[0], srcs[1], srcs[2])) return gated;
    }
    const auto closed = u.closed();
    if (closed.empty()) return rules::WithIndexSources(ctx, u, srcs);
    std::vector<UOp> out(srcs.begin(), srcs.begin() + static_cast<std::ptrdiff_t>(u.n_body()));
    for (UOp r : closed) out.push_back(r == outer ? merged : r == inner ? single : r);
    return ctx.Make(u.op(), u.dtype(), out, u.arg(), u.tag());
  });
}

}  // namespace uopd::codegen
