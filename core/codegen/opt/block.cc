// SPDX-License-Identifier: MIT
#include "core/codegen/opt/block.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "core/codegen/passes/stages.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {

using ir::AxisType;
using ir::Op;
using ir::UOp;

namespace {

int64_t SizeOf(UOp range) { return range.src(0).const_int(); }

AxisType TypeInFill(AxisType type) {
  if (type == AxisType::LOOP) return AxisType::REDUCE;
  return type == AxisType::UPCAST ? AxisType::UNROLL : type;
}

}  // namespace

UOp KeepPartials(ir::UOpContext& ctx, UOp value, Op op, std::span<const UOp> blocks,
                 std::span<const PackPart> parts, ir::Substitution& fresh, int64_t& next_id) {
  // The elements of one tile lie together, lanes innermost.
  std::vector<PackPart> layout(parts.begin(), parts.end());
  std::sort(layout.begin(), layout.end(), [](const PackPart& a, const PackPart& b) {
    const auto place = [](const PackPart& p) {
      return std::tuple(!p.in_loop, p.range.axis_type() == AxisType::VECTOR, p.axis, -p.stride);
    };
    return place(a) < place(b);
  });
  std::vector<UOp> closed(blocks.begin(), blocks.end());
  for (const PackPart& p : parts) {
    UOp& mine = fresh[p.range.id()];
    if (!mine) mine = Range(ctx, p.range.src(0), next_id++, TypeInFill(p.range.axis_type()));
    closed.push_back(mine);
  }
  const auto position = [&](auto range_of) {
    UOp at = ctx.Idx(0);
    for (const PackPart& p : layout)
      at = rules::IndexSum(ctx, rules::IndexProduct(ctx, at, ctx.Idx(SizeOf(p.range))),
                           range_of(p.range));
    return at;
  };
  int64_t elements = 1;
  for (const PackPart& p : layout) elements *= SizeOf(p.range);
  const UOp stage = ir::Staged(ctx, ir::Substitute(ctx, value, fresh), elements,
                               position([&](UOp r) { return fresh.at(r.id()); }), UOp(), closed);
  const UOp partial =
      ctx.Make(Op::STAGE, stage.dtype(), stage.srcs(), stage.arg(), PartialTag(op, blocks.size()));
  return ir::Load(ctx, ir::Index(ctx, partial, position([](UOp r) { return r; })));
}

}  // namespace uopd::codegen
