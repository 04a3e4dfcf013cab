// SPDX-License-Identifier: MIT
// TC: computes a sum of products of small elements with an instruction that multiplies matrices
// (Target::matrix_instructions).
//
// A *word* is 32 bits that hold k elements of one operand (one of tf32), one after the other along
// a reduced axis, element 0 in the lowest bits. WMMA (core/ir/ops.def) multiplies the elements of
// two words and adds the products. Which k elements share a word does not matter, as long as the
// words of both operands hold the same ones.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "core/base/target/target.h"
#include "core/ir/context.h"

namespace uopd::codegen {

// The operands of a product, before they are converted to the dtype of the sum.
struct Factors {
  ir::UOp a, b;
};
// Those of REDUCE(ADD, MUL(CAST(a), CAST(b))) where a and b are tf32, or narrower than 32 bits.
std::optional<Factors> SmallFactors(ir::UOp reduce);

// Whether the value of a reduction needs another reduction.
bool NeedsReduction(const ir::UOpContext& ctx, ir::UOp reduce);

// The instructions that TC chooses from, best first: those of one row (m = 1), then one row of each
// tile (m > 1) that the target has no such instruction for. A WMMA of the latter must become a part
// of a tile, or is computed element by element.
std::vector<MatrixInstruction> RowInstructions(const Target& target);

// Whether the instruction, of one row, computes such a sum. An instruction that takes one unsigned
// and one signed byte computes products of any two bytes (see DotRoles).
bool Computes(const MatrixInstruction& instruction, const Factors& factors, ir::Dtype sum);

// The instruction of the target that multiplies whole tiles of the same elements (m > 1), or null.
// WMMAs of 16 rows become such tiles (cpu/passes/wmma_tiles.h).
const MatrixInstruction* TileInstruction(const Target& target, const MatrixInstruction& rows);

// Which operand is the first one of WMMA, and whether the sign bits of its elements are flipped.
//
// x ^ 0x80 turns a signed byte x into the unsigned byte x + 128, and an unsigned x into the signed
// byte x - 128. Then 128 times the sum of the other operand is taken off, or added.
struct DotRoles {
  bool swapped = false;  // WMMA(b, a)
  bool flips_first = false, flips_second = false;
};
// `b_has_lanes`: only b differs from lane to lane. The sum that is taken off is then one of b: it
// is the same for all values of a, so it is computed outside of the loops over them.
DotRoles RolesOf(ir::Dtype a, ir::Dtype b, bool a_has_lanes, bool b_has_lanes);

// The word of `value`: its elements for group = 0, 1, ..., where group is a RANGE of constant size.
// Where maybe_valid is false, the elements are 0. Elements that were taken out of one word by
// shifts (schedule/kept/packed_operand.h) give this word.
ir::UOp MakeWord(ir::UOpContext& ctx, ir::UOp value, ir::UOp group, ir::UOp maybe_valid,
                 bool flips);

// Where `value` is an element that is taken out of a word: the word, what is loaded for it, and the
// number of bits that it is shifted by. The word is a LOAD, or bits of such words: made by AND,
// SHR, SHL and OR, so that it is 0 where its loads are 0 (as nibbles lie in the words of quantised
// weights).
struct WordInMemory {
  ir::UOp word;
  std::vector<ir::UOp> loads;
  ir::UOp shift;
};
std::optional<WordInMemory> WordIn(ir::UOp value);

// The sum over `ranges` of the products of the words; the words are in the order of WMMA. A word
// whose elements are invalid is 0, also if it is flipped in the other operand.
ir::UOp SumOfWords(ir::UOpContext& ctx, const MatrixInstruction& instruction, ir::UOp first,
                   ir::UOp second, const DotRoles& roles, std::span<const ir::UOp> ranges);

}  // namespace uopd::codegen
