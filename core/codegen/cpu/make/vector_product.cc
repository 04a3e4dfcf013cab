// SPDX-License-Identifier: MIT
#include "core/codegen/cpu/make/vector_product.h"

#include <algorithm>
#include <vector>

#include "core/base/text.h"
#include "core/codegen/opts/parts.h"
#include "core/ir/build.h"

namespace uopd::codegen {

using ir::AxisType;
using ir::UOp;

absl::Status AddVectorProduct(Adding& adding, const Opt& opt) {
  PlanAxis& axis = adding.Axis(opt);
  if (adding.kernel().has_stages) return Bad(opt, "the kernel stages values");
  if (axis.HasPanel()) return Bad(opt, "TC comes before BLOCK of its axis");
  int64_t fits = 0;
  for (const MatrixInstruction& i : RowInstructions(adding.target)) {
    bool computes = true, any = false;
    for (UOp u : adding.kernel().order) {
      if (!PlanKernel::Closes(u, axis.range)) continue;
      const auto factors = SmallFactors(u);
      computes =
          computes && factors && Computes(i, *factors, u.dtype()) && !NeedsReduction(adding.ctx, u);
      any = true;
    }
    if (!computes || !any || ++fits < opt.amount) continue;
    adding.state.instruction = std::make_shared<const MatrixInstruction>(i);
    adding.state.sum_axis = static_cast<size_t>(opt.axis);
    SplitOff(adding.ctx, axis,
             {.type = AxisType::UNROLL, .amount = i.k, .outer = false, .group = true},
             axis.size >= 0 && axis.size % i.k == 0);
    return absl::OkStatus();
  }
  return Bad(opt, Cat(fits, " matrix instructions of the target compute its sums"));
}

UOp MakeVectorProduct(Making& making, UOp reduce, const Factors& operands) {
  ir::UOpContext& ctx = making.ctx();
  const PlanKernel& kernel = making.kernel();
  const MatrixInstruction& instruction = *making.state().instruction;
  const Factors before = *SmallFactors(reduce);
  std::vector<UOp> ranges;
  UOp valid;
  for (UOp r : reduce.closed()) {
    const MadeAxis& axis = making.AxisOf(r);
    ranges.insert(ranges.end(), axis.ranges.begin(), axis.ranges.end());
    valid = AndValid(ctx, valid, axis);
  }
  const auto has_lanes = [&](UOp u) {
    for (size_t i = 0; i < making.axes.size(); ++i) {
      if (making.state().axes[i].is_vector && kernel.Along(u, i)) return true;
    }
    return false;
  };
  // A load is 0 where its gate is false. Its gate covers the padding of the axes that it depends
  // on.
  const auto gates_itself = [&](UOp u) {
    const auto word = WordIn(u);
    const std::vector<UOp> loads = word ? word->loads : std::vector<UOp>{u};
    return std::ranges::all_of(loads, [&](UOp load) {
      if (!load.Is(ir::Op::LOAD)) return false;
      return std::ranges::all_of(reduce.closed(), [&](UOp r) {
        return !making.AxisOf(r).maybe_valid || kernel.Along(load.src(0).src(1), kernel.AxisOf(r));
      });
    });
  };
  const DotRoles roles =
      RolesOf(before.a.dtype(), before.b.dtype(), has_lanes(before.a), has_lanes(before.b));
  const auto word = [&](UOp from, UOp value, bool flips) {
    const UOp out = MakeWord(ctx, value, making.axes[making.state().sum_axis].maybe_group,
                             gates_itself(from) ? UOp() : valid, flips);
    const bool in_rows =
        !has_lanes(from) && TileInstruction(making.plan.target, instruction) != nullptr;
    return IsPacked(making.plan, from) ? MakePacked(making, out, in_rows) : out;
  };
  const UOp first = roles.swapped ? word(before.b, operands.b, roles.flips_first)
                                  : word(before.a, operands.a, roles.flips_first);
  const UOp second = roles.swapped ? word(before.a, operands.a, roles.flips_second)
                                   : word(before.b, operands.b, roles.flips_second);
  return SumOfWords(ctx, instruction, first, second, roles, ranges);
}

}  // namespace uopd::codegen
