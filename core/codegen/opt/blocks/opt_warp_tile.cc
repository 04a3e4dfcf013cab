// SPDX-License-Identifier: MIT
// OptPlan: TC by a matrix instruction whose operands lie in the registers of a warp.
//
// The instruction computes m rows and n columns of the result from k steps of the sum. These parts of the
// three axes are placeholders while the kernel is built:
//   - in an operand, they become the place of each element that a lane holds (Fragment);
//   - in an operand that is packed, they become words in shared memory (staged_operand.h), which the instruction
//     itself reads if it can (opt_group_mma.cc);
//   - everywhere else, they become the place of a result: a function of the lane's number, a LOCAL range, and of
//     the element's number in the lane, an UPCAST range.
// So stores, epilogues and copies to shared memory need no knowledge of the instruction.
#include <algorithm>
#include <bit>
#include <optional>

#include "core/base/text.h"
#include "core/codegen/opt/blocks/fragment_index.h"
#include "core/codegen/opt/opt_plan.h"
#include "core/codegen/passes/blocks/thread_bits.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/mma.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {

using ir::AxisType;
using ir::Op;
using ir::UOp;

std::optional<size_t> OptPlan::MaybeOwnAxis(UOp factor, UOp other) const {
  std::optional<size_t> best;
  for (size_t i = 0; i < axes_.size(); ++i) {
    const Axis& a = axes_[i];
    if (a.is_reduce || a.is_scanned || !Along(factor, i) || Along(other, i)) continue;
    if (a.size < 0 || !a.parts.empty() || !InEveryEnd(a.range)) continue;
    if (!best || a.size > axes_[*best].size) best = i;
  }
  return best;
}

absl::Status OptPlan::WarpTile(const Opt& opt) {
  if (no_locals_ || in_order_) return Bad(opt, "the kernel runs in one thread");
  if (has_stages_) return Bad(opt, "the kernel stages values");
  Axis& axis = axes_[static_cast<size_t>(opt.axis)];
  if (!axis.parts.empty()) return Bad(opt, "TC is the first opt of its axes");
  UOp sum;
  for (UOp u : order_) {
    const auto closed = u.closed();
    if (std::ranges::find(closed, axis.range) == closed.end()) continue;
    if (sum) return Bad(opt, "two sums run along the axis");
    sum = u;
  }
  for (UOp r : sum ? sum.closed() : std::span<const UOp>()) {
    for (const Axis::Part& p : axes_[number_.at(r.id())].parts) {
      if (p.type == AxisType::LOCAL) return Bad(opt, "threads share the sum already");
    }
  }
  const auto factors = sum ? SmallFactors(sum) : std::nullopt;
  if (!factors) return Bad(opt, "the sum is not one of products of small elements");
  for (UOp n : ir::Toposort(ctx_, sum.srcs().first(1))) {
    if (n.Is(Op::REDUCE)) return Bad(opt, "the products need another reduction");
  }
  const auto rows = MaybeOwnAxis(factors->a, factors->b),
             columns = MaybeOwnAxis(factors->b, factors->a);
  if (!rows || !columns) return Bad(opt, "the factors share all axes");
  int64_t fits = 0;
  for (const MatrixInstruction& i : target_.matrix_instructions) {
    if (!i.of_warp() || !Computes(i, *factors, sum.dtype())) continue;
    if (i.sum_place.lanes() != target_.warp_lanes && !i.in_shared()) continue;
    if (++fits < opt.amount) continue;
    if (i.in_shared()) {
      if (const std::string why = MaybeNoGroup(*factors); !why.empty()) return Bad(opt, why);
      for (UOp load : loads_) {
        const bool mine =
            ir::Reaches(ctx_, factors->a, load) || ir::Reaches(ctx_, factors->b, load);
        if (mine && std::ranges::find(packed_, load) == packed_.end()) packed_.push_back(load);
      }
    }
    instruction_ = i;
    group_axis_ = static_cast<size_t>(opt.axis);
    rows_axis_ = *rows;
    columns_axis_ = *columns;
    const auto split = [&](size_t number, int64_t amount) {
      Axis& a = axes_[number];
      return SplitOff(a, {AxisType::LOOP, amount, false, false, false, true},
                      a.size >= 0 && a.size % amount == 0);
    };
    UOPD_TRY(split(group_axis_, i.k));
    UOPD_TRY(split(rows_axis_, i.m));
    return split(columns_axis_, i.n);
  }
  return Bad(opt, Cat(fits, " matrix instructions of the target compute its sums"));
}

UOp OptPlan::MakeMma(UOp reduce, const Factors& operands, std::span<const MadeAxis> made,
                     const WarpRanges& warp, int64_t& next_id) {
  const Factors before = *SmallFactors(reduce);
  std::vector<UOp> ranges;
  UOp valid;
  for (UOp r : reduce.closed()) {
    const MadeAxis& axis = made[number_.at(r.id())];
    if (axis.maybe_blocks) ranges.push_back(axis.maybe_blocks);
    ranges.insert(ranges.end(), axis.ranges.begin(), axis.ranges.end());
    if (axis.maybe_valid) valid = valid ? And(ctx_, valid, axis.maybe_valid) : axis.maybe_valid;
  }
  const auto summed = [&](UOp sum) {
    return ranges.empty() ? sum : ir::ReduceRanges(ctx_, Op::ADD, sum, ranges);
  };
  if (instruction_->in_shared())
    return ResultOf(summed(MakeGroupProduct(reduce, operands, valid, made, next_id)), warp);
  // A load is 0 in the padding of the axes that it depends on.
  const auto gates_itself = [&](UOp u) {
    if (!u.Is(Op::LOAD)) return false;
    return std::ranges::all_of(reduce.closed(), [&](UOp r) {
      const size_t axis = number_.at(r.id());
      return !made[axis].maybe_valid || Along(u.src(0).src(1), axis);
    });
  };
  const auto words = [&](UOp from, UOp value, const Fragment& place, char own, size_t own_axis) {
    const bool packed = IsPacked(from);
    const UOp gate = !packed && gates_itself(from) ? UOp() : valid;
    return OperandWords(value, gate, packed, place, own, own_axis, made, warp, next_id);
  };
  const UOp a = words(before.a, operands.a, instruction_->a_place, 'r', rows_axis_),
            b = words(before.b, operands.b, instruction_->b_place, 'c', columns_axis_);
  const ir::Mma mma{instruction_->m,
                    instruction_->n,
                    instruction_->k,
                    static_cast<int64_t>(instruction_->a),
                    static_cast<int64_t>(instruction_->b),
                    instruction_->sum_place.lanes(),
                    (*ctx_.ShapeOf(a))[0].const_int(),
                    (*ctx_.ShapeOf(b))[0].const_int()};
  return ResultOf(summed(ctx_.Make(Op::MMA, reduce.dtype(), {a, b}, mma.ToArg(ctx_))), warp);
}

// The result of the element's number, which is a constant once UPCAST ranges are copies. A tree of choices, a bit at a
// time: a choice depends on no higher bits, so it has few copies.
UOp OptPlan::ResultOf(UOp sums, const WarpRanges& warp) {
  std::vector<UOp> results;
  for (int64_t k = 0; k < instruction_->sum_place.elements(); ++k)
    results.push_back(ctx_.Make(Op::GEP, sums.dtype(), {sums}, ir::Arg::Int(k)));
  for (const UOp bit : warp.element) {
    const UOp is_zero = ir::Alu(ctx_, Op::CMPEQ, {bit, ctx_.Idx(0)});
    for (size_t k = 0; k < results.size() / 2; ++k)
      results[k] = Where(ctx_, is_zero, results[2 * k], results[2 * k + 1]);
    results.resize(results.size() / 2);
  }
  return results[0];
}

UOp OptPlan::PlaceResults(UOp sink, std::span<const MadeAxis> made, const WarpRanges& warp,
                          std::span<const UOp> stores) {
  const Fragment& place = instruction_->sum_place;
  const auto at = [&](char axis) {
    return rules::IndexSum(ctx_, FragmentDigits(ctx_, place.lane, axis, warp.lane),
                           FragmentBits(ctx_, place.element, axis, warp.element));
  };
  const MadeAxis& columns = made[columns_axis_];
  ir::Substitution places = {{made[rows_axis_].maybe_mma.id(), at('r')},
                             {columns.maybe_mma.id(), at('c')}};
  // Two neighbouring results of a lane share one condition if pairs divide the axis.
  const UOp size = axes_[columns_axis_].range.src(0);
  const bool even = size.Is(Op::CONST) && size.const_int() % 2 == 0;
  if (columns.maybe_valid && even && !place.element.empty() &&
      place.element[0] == Fragment::Bit{'c', 0}) {
    const UOp valid = ir::Substitute(ctx_, columns.maybe_valid, places);
    places[columns.maybe_valid.id()] =
        ir::Substitute(ctx_, valid, {{warp.element[0].id(), ctx_.Idx(0)}});
  }
  if (const QuadBit bit = QuadBitOf(made, warp); bit.maybe_range) {
    ir::Substitution quads;
    for (const UOp store : stores) quads[store.id()] = QuadStore(store, made, warp, bit, places);
    places.insert(quads.begin(), quads.end());
  }
  return ir::Substitute(ctx_, sink, places);
}

}  // namespace uopd::codegen
