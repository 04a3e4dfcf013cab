// SPDX-License-Identifier: MIT
#include "core/codegen/opts/make/pack_value.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>

#include "core/codegen/passes/vectors/vectorise.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;

constexpr int64_t kRowLanes = 16;  // of the vectors that fill the rows of a tile

int64_t Size(UOp range) { return range.src(0).const_int(); }

// Lanes that are gathered from rows along which a reduced axis is contiguous: as many steps of that
// axis as there are lanes are a square, which is transposed in registers
// (cpu/passes/transpose_loads.h).
struct SquareCopy {
  UOp vector;         // the RANGE of the lanes
  size_t axis = 0;    // that is contiguous in memory
  int64_t steps = 1;  // of all its parts
};

std::optional<SquareCopy> MaybeSquare(ir::UOpContext& ctx, UOp value,
                                      std::span<const PackPart> parts) {
  if (!value.Is(Op::LOAD) || ir::Bits(value.dtype()) != 32 || value.src(0).n_src() > 2)
    return std::nullopt;
  SquareCopy out;
  std::optional<size_t> vector_axis, contiguous;
  for (const PackPart& p : parts) {
    if (p.range.axis_type() == AxisType::VECTOR) {
      out.vector = p.range;
      vector_axis = p.axis;
    }
  }
  if (!out.vector || Size(out.vector) < 4) return std::nullopt;
  for (const PackPart& p : parts) {
    if (p.reduced && p.axis != vector_axis && p.stride == 1 &&
        StrideAlong(ctx, value.src(0).src(1), p.range) == 1)
      contiguous = p.axis;
  }
  if (!contiguous) return std::nullopt;
  out.axis = *contiguous;
  for (const PackPart& p : parts) out.steps *= p.axis == out.axis ? Size(p.range) : 1;
  if (out.steps % Size(out.vector) != 0) return std::nullopt;
  return out;
}

// Whether a row is filled by vectors: its elements lie close to each other in memory.
bool FillsByVectors(ir::UOpContext& ctx, const PackPart& p, std::span<const UOp> indices) {
  if (!p.in_rows || Size(p.range) % kRowLanes != 0) return false;
  return std::ranges::all_of(indices, [&](UOp index) {
    const auto stride = StrideAlong(ctx, index.src(1), p.range);
    return index.n_src() == 2 && stride && *stride > 0 && *stride <= kSmallStride;
  });
}

}  // namespace

UOp LoadFromArray(ir::UOpContext& ctx, UOp value, std::span<const PackPart> layout,
                  const ir::Substitution& fresh, std::span<const UOp> closed, int64_t tag) {
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
  const UOp array = ctx.Make(Op::STAGE, stage.dtype(), stage.srcs(), stage.arg(), tag);
  return ir::Load(ctx, ir::Index(ctx, array, position([](UOp r) { return r; })));
}

UOp PackValue(ir::UOpContext& ctx, UOp value, std::span<const PackPart> parts, int64_t& next_id) {
  std::vector<UOp> indices;  // of its loads
  for (UOp u : ir::Toposort(ctx, value)) {
    if (u.Is(Op::LOAD)) indices.push_back(u.src(0));
  }
  // The layout, slowest first: the tiles of a panel; inside of each tile the reduced axes, the
  // other axes, the axis with the lanes. Of one axis the part with the largest stride comes first,
  // so the elements of an axis keep their order.
  const auto has_lanes = [&](size_t axis) {
    return std::any_of(parts.begin(), parts.end(), [&](const PackPart& p) {
      return p.axis == axis && p.range.axis_type() == AxisType::VECTOR;
    });
  };
  // Rows of tiles have the reduced axes inside, the one of their words last.
  const bool has_rows = std::ranges::any_of(parts, &PackPart::in_rows);
  std::vector<PackPart> loops(parts.begin(), parts.end());
  std::sort(loops.begin(), loops.end(), [&](const PackPart& a, const PackPart& b) {
    const auto key = [&](const PackPart& p) {
      return std::tuple(has_lanes(p.axis), p.reduced == has_rows, p.in_rows, p.axis, -p.stride);
    };
    return key(a) < key(b);
  });
  std::vector<PackPart> layout;
  for (const bool in_loop : {true, false}) {
    std::copy_if(loops.begin(), loops.end(), std::back_inserter(layout),
                 [&](const PackPart& p) { return p.in_loop == in_loop; });
  }
  bool copies_vectors = true;
  for (const PackPart& p : layout) {
    if (p.range.axis_type() != AxisType::VECTOR) continue;
    for (UOp index : indices) {
      const auto stride = StrideAlong(ctx, index.src(1), p.range);
      copies_vectors = copies_vectors && stride && *stride >= 0 && *stride <= kSmallStride;
    }
  }
  // The loops that fill the copy. Vectors are copied whole, those of one row after the other: rows
  // are long if the copy is for a whole panel. Elements one by one, or squares of them: then the
  // reduced axes are the inner loops, because along them the elements of transposed operands are
  // contiguous.
  if (!copies_vectors) {
    std::sort(loops.begin(), loops.end(), [](const PackPart& a, const PackPart& b) {
      return std::tuple(a.reduced, a.axis, -a.stride) < std::tuple(b.reduced, b.axis, -b.stride);
    });
  }
  const auto square = copies_vectors ? std::nullopt : MaybeSquare(ctx, value, parts);
  ir::Substitution fresh;
  std::vector<UOp> closed;
  UOp step;  // of the contiguous axis of a square
  if (square) {
    const int64_t lanes = Size(square->vector), turns = square->steps / lanes;
    closed.push_back(Range(ctx, ctx.Idx(lanes), next_id++, AxisType::UNROLL));
    step = closed.back();
    if (turns > 1) {
      closed.push_back(Range(ctx, ctx.Idx(turns), next_id++, AxisType::REDUCE));
      step = rules::IndexSum(ctx, rules::IndexProduct(ctx, closed.back(), ctx.Idx(lanes)), step);
    }
  }
  for (const PackPart& p : loops) {
    if (square && p.axis == square->axis) {
      const UOp at = ir::Alu(ctx, Op::FLOORDIV, {step, ctx.Idx(p.stride)});
      fresh[p.range.id()] = ir::Alu(ctx, Op::FLOORMOD, {at, ctx.Idx(Size(p.range))});
      continue;
    }
    AxisType type = p.range.axis_type();
    if (type == AxisType::UPCAST) type = has_rows ? AxisType::REDUCE : AxisType::UNROLL;
    if (FillsByVectors(ctx, p, indices)) {
      closed.push_back(Range(ctx, ctx.Idx(Size(p.range) / kRowLanes), next_id++, AxisType::REDUCE));
      closed.push_back(Range(ctx, ctx.Idx(kRowLanes), next_id++, AxisType::VECTOR));
      fresh[p.range.id()] = rules::IndexSum(
          ctx, rules::IndexProduct(ctx, closed[closed.size() - 2], ctx.Idx(kRowLanes)),
          closed.back());
      continue;
    }
    if (type == AxisType::LOOP) type = AxisType::REDUCE;
    if (type == AxisType::VECTOR && !copies_vectors && !square) type = AxisType::REDUCE;
    closed.push_back(Range(ctx, p.range.src(0), next_id++, type));
    fresh[p.range.id()] = closed.back();
  }
  return LoadFromArray(ctx, value, layout, fresh, closed);
}

}  // namespace uopd::codegen
