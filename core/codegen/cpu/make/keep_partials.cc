// SPDX-License-Identifier: MIT
#include "core/codegen/cpu/make/keep_partials.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "core/codegen/passes/stages.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::codegen {

using ir::AxisType;
using ir::Op;
using ir::UOp;

namespace {

AxisType TypeInFill(AxisType type) {
  if (type == AxisType::LOOP) return AxisType::REDUCE;
  return type == AxisType::UPCAST ? AxisType::UNROLL : type;
}

}  // namespace

UOp KeepPartials(ir::UOpContext& ctx, UOp value, Op op, std::span<const UOp> panels,
                 std::span<const PackPart> parts, FillRanges& fill) {
  // The elements of one tile lie together, lanes innermost.
  std::vector<PackPart> layout(parts.begin(), parts.end());
  std::sort(layout.begin(), layout.end(), [](const PackPart& a, const PackPart& b) {
    const auto place = [](const PackPart& p) {
      return std::tuple(!p.in_loop, p.range.axis_type() == AxisType::VECTOR, p.axis, -p.stride);
    };
    return place(a) < place(b);
  });
  std::vector<UOp> closed(panels.begin(), panels.end());
  for (const PackPart& p : parts) {
    UOp& mine = fill.of[p.range.id()];
    if (!mine) mine = Range(ctx, p.range.src(0), fill.next_id++, TypeInFill(p.range.axis_type()));
    closed.push_back(mine);
  }
  return LoadFromArray(ctx, value, layout, fill.of, closed, PartialTag(op, panels.size()));
}

}  // namespace uopd::codegen
