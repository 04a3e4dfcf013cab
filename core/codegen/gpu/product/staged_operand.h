// SPDX-License-Identifier: MIT
// Operands of matrix instructions of warps, staged by the block as 32-bit words.
//
// The array has a row for each row or column of the operand, and the words of a row follow each
// other along the sum (SharedRows). A word of a lane's fragment is one load, or a warp loads
// matrices (MATRIX_LOAD) where the target can. Words that lie in memory as words are copied as
// words; others are made of their elements while they are staged.
#pragma once
#include <functional>
#include <vector>

#include "core/base/target/target.h"
#include "core/codegen/opts/make/pack_value.h"
#include "core/ir/group_mma.h"

namespace uopd::codegen {

// Which part of an axis of an operand the instruction takes: a RANGE that stands for the place in
// the instruction, `stride` places of the axis apart. `axis`: its number, as in PackPart.
struct InstructionTile {
  size_t axis = 0;
  ir::UOp range;
  int64_t stride = 1;
};

struct StagedOperand {
  ir::UOp value;        // an element, a function of the ranges of both tiles and of others
  ir::UOp maybe_valid;  // where it is false, the element is 0; null: nowhere
  const Fragment* place = nullptr;
  char own = 'r';  // the letter of the axis that is not summed up
  InstructionTile own_tile, sum_tile;
  // The ranges that the array covers, among those that a value depends on: the tiles', and loops of
  // the block.
  std::function<std::vector<PackPart>(ir::UOp)> parts;
};

// An operand for an instruction that reads shared memory (MatrixInstruction::in_shared): the
// array's INDEX where it begins to read the tile, and how the array lies there. The rows are
// swizzled (shared_rows.h).
struct SharedOperand {
  ir::UOp begin;
  ir::SharedMatrix matrix;
};
// `operand.place` is not used. The other arguments as below.
SharedOperand StageMatrix(ir::UOpContext& ctx, const StagedOperand& operand, bool loads_words,
                          int64_t& next_id);

// A STACK of the words of the lane with the number `lane`, from an array that is filled in front of
// it. `loads_words`: buffers may be read as words (word_load.h). New RANGEs get axis ids from
// `next_id` on.
ir::UOp StageOperand(ir::UOpContext& ctx, const Target& target, const StagedOperand& operand,
                     ir::UOp lane, bool loads_words, int64_t& next_id);

// The words of the lane as they are computed, without an array. The arguments as above.
ir::UOp DirectOperand(ir::UOpContext& ctx, const StagedOperand& operand, ir::UOp lane,
                      bool loads_words, int64_t& next_id);

}  // namespace uopd::codegen
