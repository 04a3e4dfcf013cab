// SPDX-License-Identifier: MIT
#include "core/codegen/attention/warp_rows/row_places.h"

#include "core/codegen/gpu/passes/threads/thread_bits.h"
#include "core/codegen/gpu/product/fragment_index.h"
#include "core/ir/build.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {

using ir::AxisType;
using ir::Op;
using ir::UOp;

namespace {

RowPlaces MakeRowPlaces(ir::UOpContext& ctx, const RowProducts& products,
                        const RowFragment& fragment, int64_t& next_id) {
  RowPlaces out;
  const int64_t others = fragment.others(), k = fragment.instruction.k;
  const int64_t keys = products.keys[0].src(0).const_int(),
                columns = products.columns.src(0).const_int();
  const auto make = [&](int64_t size, AxisType type, int64_t tag = 0) {
    return RangeOrZero(ctx, size, type, next_id, tag);
  };
  const UOp low = make(NumbersOf(fragment.low), AxisType::LOCAL, kWarpRange),
            high = make(NumbersOf(fragment.high), AxisType::LOCAL, kUpperWarpRange);
  out.lane = InTile(ctx, high, NumbersOf(fragment.low), low);
  out.own_lane = fragment.low_is_own() ? low : high;
  out.other_lane = fragment.low_is_own() ? high : low;
  out.own_result = make(NumbersOf(fragment.own_results), AxisType::UPCAST);
  out.keys.result = make(NumbersOf(fragment.other_results), AxisType::UNROLL);
  out.column.result = make(NumbersOf(fragment.other_results), AxisType::UNROLL);
  out.columns.result = make(NumbersOf(fragment.other_results), AxisType::UPCAST);
  out.keys.tile = make(keys / others, AxisType::UNROLL);
  out.key_step = make(keys / k, AxisType::UNROLL);
  out.depth_step = make(products.depth.src(0).const_int() / k, AxisType::UNROLL);
  out.column.tile = make(columns / others, AxisType::UNROLL);
  out.columns.tile = make(columns / others, AxisType::UPCAST);
  const int64_t tile_rows = fragment.rows();
  const UOp rows = products.rows.src(0);
  const UOp tiles =
      rows.Is(Op::CONST)
          ? ctx.Idx((rows.const_int() + tile_rows - 1) / tile_rows)
          : ir::Alu(ctx, Op::FLOORDIV,
                    {rules::IndexSum(ctx, rows, ctx.Idx(tile_rows - 1)), ctx.Idx(tile_rows)});
  out.rows_tile = Range(ctx, tiles, products.rows.axis_id(), AxisType::LOOP);
  // A place along an axis: of the lane, and of the number of its result along the axis.
  const auto place = [&](char axis, UOp field, const std::vector<Fragment::Bit>& results,
                         UOp result) {
    const auto& lanes = fragment.low[0].axis == axis ? fragment.low : fragment.high;
    return rules::IndexSum(ctx, FragmentDigits(ctx, lanes, axis, field),
                           FragmentDigits(ctx, results, axis, result));
  };
  out.row = InTile(ctx, out.rows_tile, tile_rows,
                   place(fragment.own(), out.own_lane, fragment.own_results, out.own_result));
  for (OtherPlaces* p : {&out.keys, &out.column, &out.columns}) {
    p->place = InTile(ctx, p->tile, others,
                      place(fragment.other(), out.other_lane, fragment.other_results, p->result));
  }
  return out;
}

}  // namespace

RowTile MakeRowTile(ir::UOpContext& ctx, const RowProducts& products, const RowFragment& fragment,
                    int64_t& next_id) {
  return {products, fragment, MakeRowPlaces(ctx, products, fragment, next_id)};
}

UOp RangeOrZero(ir::UOpContext& ctx, int64_t size, AxisType type, int64_t& next_id, int64_t tag) {
  if (size == 1) return ctx.Idx(0);
  return ctx.Make(Op::RANGE, ir::Dtype::Index, {ctx.Idx(size)},
                  ctx.Data({next_id++, static_cast<int64_t>(type)}), tag);
}

UOp InTile(ir::UOpContext& ctx, UOp tile, int64_t size, UOp inside) {
  return rules::IndexSum(ctx, rules::IndexProduct(ctx, tile, ctx.Idx(size)), inside);
}

void AppendRanges(std::vector<UOp>& out, std::initializer_list<UOp> ranges) {
  for (UOp r : ranges) {
    if (r.Is(Op::RANGE)) out.push_back(r);
  }
}

}  // namespace uopd::codegen
