// SPDX-License-Identifier: MIT
// Stores of the results of NVIDIA's matrix instructions, of 16 bits each.
//
// Memory is written in sectors of 32 bytes. Of a row of eight results, each of four neighbouring
// lanes (a quad) holds two. Results of 32 bits fill a sector then; those of 16 bits fill half of
// one. So each lane of a quad exchanges a half of its results with its neighbour, and holds four
// neighbours in a row of 16 afterwards:
//
//   column        0 1  2 3  4 5  6 7  8 9  ..           a number is a lane of the quad
//   before        0 0  1 1  2 2  3 3  0 0  1 1 2 2 3 3
//   after         0 0  0 0  2 2  2 2  1 1  1 1 3 3 3 3
//
// That swaps two bits of the column: bit 1, the lowest one of the lane's number, and bit 3, one of
// the element's number or of the tile's. Each lane gives one word of two results for each two that
// it has (SHUFFLE). All the rest is as for other stores: the address is a function of the lane and
// the element, of the other bits.
#include "core/codegen/gpu/product/fragment_index.h"
#include "core/codegen/gpu/product/warp_product.h"
#include "core/codegen/passes/vectors/vectorise.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {

using ir::AxisType;
using ir::Dtype;
using ir::Op;
using ir::UOp;

namespace {

constexpr Fragment::Bit kPairBit{'c', 0}, kLaneBit{'c', 1}, kTileBit{'c', 3};
constexpr int64_t kQuadResults = 4;  // neighbours that a lane holds afterwards

bool IsOfQuads(const Fragment& place) {
  return !place.element.empty() && place.element[0] == kPairBit && place.lane.size() > 1 &&
         place.lane[0] == kLaneBit && place.lane[1] == Fragment::Bit{'c', 2};
}

// Two results as a word, the first one in the lower half.
UOp WordOfHalves(ir::UOpContext& ctx, UOp low, UOp high) {
  const auto wide = [&](UOp u) {
    return ir::Cast(ctx, u.dtype() == Dtype::U16 ? u : ir::Bitcast(ctx, u, Dtype::U16), Dtype::U32);
  };
  return ir::Alu(ctx, Op::OR,
                 {wide(low), ir::Alu(ctx, Op::SHL, {wide(high), ctx.Int(Dtype::U32, 16)})});
}

}  // namespace

bool HoldsQuadBit(const PlanState& state, int axis) {
  const MatrixInstruction* instruction = state.instruction.get();
  if (instruction == nullptr || !instruction->of_warp()) return false;
  if (static_cast<size_t>(axis) != state.columns_axis) return false;
  const auto& parts = state.axes[state.columns_axis].parts;
  const bool first = parts.size() == 1 && parts[0].mma;
  return first && instruction->n == 8 && IsOfQuads(instruction->sum_place);
}

bool StoresInQuads(const PlanView& plan, UOp store) {
  if (!store.Is(Op::STORE) || plan.kernel().in_place || !plan.target.shuffles) return false;
  const UOp index = store.src(0);
  if (!index.src(0).Is(Op::PARAM) || ir::Bits(store.src(1).dtype()) != 16) return false;
  const auto stride = [&](size_t axis) {
    return StrideAlong(plan.ctx, index.src(1), plan.state.axes[axis].range);
  };
  // Rows that begin at odd places have no wide stores.
  return stride(plan.state.columns_axis) == 1 &&
         stride(plan.state.rows_axis).value_or(1) % kQuadResults == 0;
}

QuadBit QuadBitOf(const Making& making) {
  const Fragment& place = making.state().instruction->sum_place;
  const MadeAxis& columns = making.axes[making.state().columns_axis];
  if (!IsOfQuads(place) || columns.mma_stride != 1) return {};
  for (size_t bit = 0; bit < place.element.size(); ++bit) {
    if (place.element[bit] == kTileBit) return {making.warp.element[bit], bit};
  }
  for (size_t k = 0; k < columns.ranges.size(); ++k) {
    const UOp r = columns.ranges[k];
    if (r.axis_type() == AxisType::UPCAST && columns.strides[k] == 8 && r.src(0).IsConstInt(2))
      return {r, std::nullopt};
  }
  return {};
}

UOp QuadStore(const Making& making, UOp store, const QuadBit& bit, const ir::Substitution& places) {
  ir::UOpContext& ctx = making.ctx();
  const PlanState& state = making.state();
  const WarpRanges& warp = making.warp;
  const UOp tile = bit.maybe_range, pair = warp.element[0];
  // The address: the two bits of the column are swapped.
  Fragment swapped = state.instruction->sum_place;
  swapped.lane[0] = kTileBit;
  if (bit.element) swapped.element[*bit.element] = kLaneBit;
  UOp column = rules::IndexSum(ctx, FragmentDigits(ctx, swapped.lane, 'c', warp.lane),
                               FragmentBits(ctx, swapped.element, 'c', warp.element));
  const MadeAxis& columns = making.axes[state.columns_axis];
  ir::Substitution to = places;
  if (!bit.element) {
    column = rules::IndexSum(ctx, column, rules::IndexProduct(ctx, tile, ctx.Idx(2)));
    to[tile.id()] = ctx.Idx(0);
  }
  to[columns.maybe_mma.id()] = column;
  if (columns.maybe_valid) {
    // Four neighbours share one condition if four divide the axis.
    to.erase(columns.maybe_valid.id());
    const UOp size = state.axes[state.columns_axis].range.src(0);
    if (size.Is(Op::CONST) && size.const_int() % kQuadResults == 0) {
      const UOp valid = ir::Substitute(ctx, columns.maybe_valid, to);
      to[columns.maybe_valid.id()] =
          ir::Substitute(ctx, valid, {{tile.id(), ctx.Idx(0)}, {pair.id(), ctx.Idx(0)}});
    }
  }
  const UOp index = ir::Substitute(ctx, store.src(0), to);
  // The value.
  const UOp value = ir::Substitute(ctx, store.src(1), places);
  const auto word = [&](int64_t of_tile) {
    const auto half = [&](int64_t of_pair) {
      return ir::Substitute(ctx, value,
                            {{tile.id(), ctx.Idx(of_tile)}, {pair.id(), ctx.Idx(of_pair)}});
    };
    return WordOfHalves(ctx, half(0), half(1));
  };
  const auto is_zero = [&](UOp u) { return ir::Alu(ctx, Op::CMPEQ, {u, ctx.Idx(0)}); };
  const UOp even = is_zero(ir::FloorMod(ctx, warp.lane, ctx.Idx(2)));
  const UOp first = word(0), second = word(1);
  const UOp kept = Where(ctx, even, first, second);
  const UOp got =
      ctx.Make(Op::SHUFFLE, Dtype::U32, {Where(ctx, even, second, first)}, ir::Arg::Int(1));
  const UOp mine =
      Where(ctx, is_zero(tile), Where(ctx, even, kept, got), Where(ctx, even, got, kept));
  const UOp high = ir::Alu(ctx, Op::SHR, {mine, ctx.Int(Dtype::U32, 16)});
  const UOp half =
      Where(ctx, is_zero(pair), ir::Cast(ctx, mine, Dtype::U16), ir::Cast(ctx, high, Dtype::U16));
  const Dtype d = store.src(1).dtype();
  return ctx.Make(Op::STORE, Dtype::Void,
                  {index, d == Dtype::U16 ? half : ir::Bitcast(ctx, half, d)}, store.arg(),
                  store.tag());
}

}  // namespace uopd::codegen
