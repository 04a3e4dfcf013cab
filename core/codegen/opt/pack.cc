// SPDX-License-Identifier: MIT
#include "core/codegen/opt/pack.h"

#include <algorithm>
#include <tuple>

#include "core/codegen/passes/vectorise.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;

int64_t Size(UOp range) { return range.src(0).const_int(); }

}  // namespace

UOp PackValue(ir::UOpContext& ctx, UOp value, std::span<const PackPart> parts, int64_t& next_id) {
  std::vector<UOp> indices;  // of its loads
  for (UOp u : ir::Toposort(ctx, value)) {
    if (u.Is(Op::LOAD)) indices.push_back(u.src(0));
  }
  // The layout, slowest first: reduced axes, the other axes, the axis with the lanes. Of one axis
  // the part with the largest stride comes first, so the elements of an axis keep their order.
  const auto has_lanes = [&](size_t axis) {
    return std::any_of(parts.begin(), parts.end(), [&](const PackPart& p) {
      return p.axis == axis && p.range.axis_type() == AxisType::VECTOR;
    });
  };
  std::vector<PackPart> layout(parts.begin(), parts.end());
  std::sort(layout.begin(), layout.end(), [&](const PackPart& a, const PackPart& b) {
    return std::tuple(has_lanes(a.axis), !a.reduced, a.axis, -a.stride) <
           std::tuple(has_lanes(b.axis), !b.reduced, b.axis, -b.stride);
  });
  bool copies_vectors = true;
  for (const PackPart& p : layout) {
    if (p.range.axis_type() != AxisType::VECTOR) continue;
    for (UOp index : indices) {
      const auto stride = StrideAlong(ctx, index.src(1), p.range);
      copies_vectors = copies_vectors && stride && *stride >= 0 && *stride <= kSmallStride;
    }
  }
  // The loops that fill the copy. Vectors are copied whole. Elements one by one: then the reduced
  // axes are the inner loops, because along them the elements of transposed operands are contiguous.
  std::vector<PackPart> loops = layout;
  if (!copies_vectors) {
    std::sort(loops.begin(), loops.end(), [](const PackPart& a, const PackPart& b) {
      return std::tuple(a.reduced, a.axis, -a.stride) < std::tuple(b.reduced, b.axis, -b.stride);
    });
  }
  ir::Substitution fresh;
  std::vector<UOp> closed;
  for (const PackPart& p : loops) {
    AxisType type = p.range.axis_type();
    if (type == AxisType::UPCAST) type = AxisType::UNROLL;
    if (type == AxisType::VECTOR && !copies_vectors) type = AxisType::REDUCE;
    closed.push_back(Range(ctx, p.range.src(0), next_id++, type));
    fresh[p.range.id()] = closed.back();
  }
  const auto position = [&](auto range_of) {
    UOp at = ctx.Idx(0);
    for (const PackPart& p : layout)
      at = rules::IndexSum(ctx, rules::IndexProduct(ctx, at, ctx.Idx(Size(p.range))),
                           range_of(p.range));
    return at;
  };
  int64_t elements = 1;
  for (const PackPart& p : layout) elements *= Size(p.range);
  const UOp stage = ir::Staged(ctx, ir::Substitute(ctx, value, fresh), elements,
                               position([&](UOp r) { return fresh.at(r.id()); }), UOp(), closed);
  return ir::Load(ctx, ir::Index(ctx, stage, position([](UOp r) { return r; })));
}

}  // namespace uopd::codegen
