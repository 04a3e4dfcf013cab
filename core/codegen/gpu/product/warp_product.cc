// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/product/warp_product.h"

#include <algorithm>
#include <vector>

#include "core/codegen/gpu/passes/threads/thread_bits.h"
#include "core/codegen/gpu/product/fragment_index.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/mma.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;

// An operand whose words the lanes hold. Where `maybe_valid` is false, the element `value` is 0.
struct LaneOperand {
  UOp value, maybe_valid;
  bool packed = false;  // the block stages the words
  const Fragment& place;
  char own;         // the letter of the axis that is not summed up
  size_t own_axis;  // its number
};

UOp WordsOf(Making& making, const LaneOperand& words) {
  const StagedOperand operand{words.value,
                              words.maybe_valid,
                              &words.place,
                              words.own,
                              TileOf(making, words.own_axis),
                              TileOf(making, making.state().sum_axis),
                              [&](UOp word) { return PartsOf(making, word, true); }};
  if (!words.packed)
    return DirectOperand(making.ctx(), operand, making.warp.lane, false, making.next_id);
  return StageOperand(making.ctx(), making.plan.target, operand, making.warp.lane,
                      making.loads_words, making.next_id);
}

// The result of the element's number, which is a constant once UPCAST ranges are copies. A tree of
// choices, a bit at a time: a choice depends on no higher bits, so it has few copies.
UOp ResultOf(const Making& making, UOp sums) {
  ir::UOpContext& ctx = making.ctx();
  std::vector<UOp> results;
  for (int64_t k = 0; k < making.state().instruction->sum_place.elements(); ++k)
    results.push_back(ctx.Make(Op::GEP, sums.dtype(), {sums}, ir::Arg::Int(k)));
  for (const UOp bit : making.warp.element) {
    const UOp is_zero = ir::Alu(ctx, Op::CMPEQ, {bit, ctx.Idx(0)});
    for (size_t k = 0; k < results.size() / 2; ++k)
      results[k] = Where(ctx, is_zero, results[2 * k], results[2 * k + 1]);
    results.resize(results.size() / 2);
  }
  return results[0];
}

}  // namespace

InstructionTile TileOf(const Making& making, size_t axis) {
  return {axis, making.axes[axis].maybe_mma, making.axes[axis].mma_stride};
}

void MakeWarpRanges(Making& making) {
  ir::UOpContext& ctx = making.ctx();
  const Fragment& place = making.state().instruction->sum_place;
  making.warp.lane =
      ctx.Make(Op::RANGE, ir::Dtype::Index, {ctx.Idx(place.lanes())},
               ctx.Data({making.next_id++, static_cast<int64_t>(AxisType::LOCAL)}), kWarpRange);
  for (size_t bit = 0; bit < place.element.size(); ++bit)
    making.warp.element.push_back(Range(ctx, ctx.Idx(2), making.next_id++, AxisType::UPCAST));
}

UOp MakeWarpProduct(Making& making, UOp reduce, const Factors& operands) {
  ir::UOpContext& ctx = making.ctx();
  const PlanState& state = making.state();
  const MatrixInstruction& instruction = *state.instruction;
  const Factors before = *SmallFactors(reduce);
  std::vector<UOp> ranges;
  UOp valid;
  for (UOp r : reduce.closed()) {
    const MadeAxis& axis = making.AxisOf(r);
    if (axis.maybe_panels) ranges.push_back(axis.maybe_panels);
    ranges.insert(ranges.end(), axis.ranges.begin(), axis.ranges.end());
    valid = AndValid(ctx, valid, axis);
  }
  const auto summed = [&](UOp sum) {
    return ranges.empty() ? sum : ir::ReduceRanges(ctx, Op::ADD, sum, ranges);
  };
  if (instruction.in_shared())
    return ResultOf(making, summed(MakeGroupProduct(making, reduce, operands, valid)));
  // A load is 0 in the padding of the axes that it depends on.
  const auto gates_itself = [&](UOp u) {
    if (!u.Is(Op::LOAD)) return false;
    return std::ranges::all_of(reduce.closed(), [&](UOp r) {
      return !making.AxisOf(r).maybe_valid ||
             making.kernel().Along(u.src(0).src(1), making.kernel().AxisOf(r));
    });
  };
  const auto words = [&](UOp from, UOp value, const Fragment& place, char own, size_t own_axis) {
    const bool packed = IsPacked(making.plan, from);
    const UOp gate = !packed && gates_itself(from) ? UOp() : valid;
    return WordsOf(making, {value, gate, packed, place, own, own_axis});
  };
  const UOp a = words(before.a, operands.a, instruction.a_place, 'r', state.rows_axis),
            b = words(before.b, operands.b, instruction.b_place, 'c', state.columns_axis);
  const ir::Mma mma{instruction.m,
                    instruction.n,
                    instruction.k,
                    static_cast<int64_t>(instruction.a),
                    static_cast<int64_t>(instruction.b),
                    instruction.sum_place.lanes(),
                    (*ctx.ShapeOf(a))[0].const_int(),
                    (*ctx.ShapeOf(b))[0].const_int()};
  return ResultOf(making, summed(ctx.Make(Op::MMA, reduce.dtype(), {a, b}, mma.ToArg(ctx))));
}

UOp PlaceResults(const Making& making, UOp sink, std::span<const UOp> stores) {
  ir::UOpContext& ctx = making.ctx();
  const PlanState& state = making.state();
  const WarpRanges& warp = making.warp;
  const Fragment& place = state.instruction->sum_place;
  const auto at = [&](char axis) {
    return rules::IndexSum(ctx, FragmentDigits(ctx, place.lane, axis, warp.lane),
                           FragmentBits(ctx, place.element, axis, warp.element));
  };
  const MadeAxis& columns = making.axes[state.columns_axis];
  ir::Substitution places = {{making.axes[state.rows_axis].maybe_mma.id(), at('r')},
                             {columns.maybe_mma.id(), at('c')}};
  // Two neighbouring results of a lane share one condition if pairs divide the axis.
  const UOp size = state.axes[state.columns_axis].range.src(0);
  const bool even = size.Is(Op::CONST) && size.const_int() % 2 == 0;
  if (columns.maybe_valid && even && !place.element.empty() &&
      place.element[0] == Fragment::Bit{'c', 0}) {
    const UOp valid = ir::Substitute(ctx, columns.maybe_valid, places);
    places[columns.maybe_valid.id()] =
        ir::Substitute(ctx, valid, {{warp.element[0].id(), ctx.Idx(0)}});
  }
  if (const QuadBit bit = QuadBitOf(making); bit.maybe_range) {
    ir::Substitution quads;
    for (const UOp store : stores) quads[store.id()] = QuadStore(making, store, bit, places);
    places.insert(quads.begin(), quads.end());
  }
  return ir::Substitute(ctx, sink, places);
}

}  // namespace uopd::codegen
