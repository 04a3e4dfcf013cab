// SPDX-License-Identifier: MIT
// OptPlan: an operand of a matrix instruction of warps, in shared memory if it is packed.
#include "core/codegen/opt/blocks/staged_operand.h"
#include "core/codegen/opt/opt_plan.h"

namespace uopd::codegen {

using ir::UOp;

UOp OptPlan::OperandWords(UOp value, UOp maybe_valid, bool packed, const Fragment& place, char own,
                          size_t own_axis, std::span<const MadeAxis> made, const WarpRanges& warp,
                          int64_t& next_id) {
  const auto tile = [&](size_t axis) {
    return InstructionTile{axis, made[axis].maybe_mma, made[axis].mma_stride};
  };
  const StagedOperand operand{
      value, maybe_valid, &place, own, tile(own_axis), tile(group_axis_), [&](UOp word) {
        return PartsOf(word, made, true);
      }};
  if (!packed) return DirectOperand(ctx_, operand, warp.lane, false, next_id);
  return StageOperand(ctx_, target_, operand, warp.lane, loads_words_, next_id);
}

}  // namespace uopd::codegen
