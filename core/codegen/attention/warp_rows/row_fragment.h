// SPDX-License-Identifier: MIT
// RowFragment: how the results of a matrix instruction lie in a warp, seen as rows of attention.
//
// One axis of the instruction, `own`, is that of the rows (queries). The other one is first that of
// the keys (scores), then that of the columns of the values. The bits of a lane's number are two
// fields, one for each axis.
//
// A value. Thread-safe.
#pragma once
#include <optional>
#include <vector>

#include "core/base/target/target.h"

namespace uopd::codegen {

struct RowFragment {
  MatrixInstruction instruction;
  bool swapped = false;  // the rows are the columns of the instruction

  char own() const { return swapped ? 'c' : 'r'; }
  char other() const { return swapped ? 'r' : 'c'; }
  int64_t rows() const { return swapped ? instruction.n : instruction.m; }  // of a warp's tile
  int64_t others() const {
    return swapped ? instruction.m : instruction.n;
  }  // keys or columns of it
  const Fragment& sum() const { return instruction.sum_place; }
  // Operands that depend on the rows (queries, scores), and that do not (keys, values).
  const Fragment& of_rows() const { return swapped ? instruction.b_place : instruction.a_place; }
  const Fragment& of_others() const { return swapped ? instruction.a_place : instruction.b_place; }

  // The bits of the results' lanes in the lower and in the upper field, and of the numbers of
  // results in a lane, by axis.
  std::vector<Fragment::Bit> low, high, own_results, other_results;
  // What the bits of an element's number in the operand of_rows() say: bit i of the number of a
  // result along the rows ('q') or along the keys ('e'), or of the number of the tile of keys in a
  // step of the sum ('t').
  std::vector<Fragment::Bit> operand;

  bool low_is_own() const { return low[0].axis == own(); }

  // The fragment, if results of the first product are operands of the second one as they lie. For
  // one of the two ways to use the instruction; nothing if there is none.
  static std::optional<RowFragment> MaybeOf(const MatrixInstruction& instruction);
};

}  // namespace uopd::codegen
