// SPDX-License-Identifier: MIT
// The packed form of a stable operand of a product.
//
// Its axes, outermost first: those that both operands have; blocks of the vectorised axis; the
// reduced axes; one block of the vectorised axis. So each step of a sum reads consecutive elements
// for a whole register tile. For a convolution that is [out / 64][kh][kw][in][64], for a depthwise
// convolution, whose vectorised axis both operands have, [kh][kw][channel].
//
// Words: if a matrix instruction of the target multiplies the elements (codegen's TC), the form has
// words of 32 bits instead. Each holds the elements that the instruction takes together, neighbours
// along the innermost reduced axis, element 0 in the lowest bits: [out / 64][kh][kw][in / 2][64] of
// U32 for pairs of bf16. Codegen loads such words as they are. An axis that the number of elements
// does not divide has no words.
#pragma once
#include <optional>

#include "core/base/target/target.h"
#include "core/schedule/kept/product.h"

namespace uopd::schedule {

struct PackedOperand {
  ir::Dims used;               // sizes of the axes that the operand depends on, in their order
  std::vector<size_t> axes;    // these axes of the product
  size_t vector = 0;           // index into `used` of the vectorised axis
  int64_t block = 1;           // of that axis
  std::vector<int64_t> order;  // PERMUTE of the axes of Split()
  ir::Dtype dtype;             // in which it is kept: that of the base if only CASTs widen it
  int64_t word = 1;            // elements of a word; 1: the form has no words
  size_t paired = 0;           // index into `used` of the axis along which a word has its elements
  ir::Dims Split() const;      // `used` with the vectorised axis divided, and the one of the words
  int64_t Bytes() const { return ir::Product(used) * ir::ByteSize(dtype); }
};

// Nullopt if packing the operand does not pay: few rows use it and it need not be rounded, it has
// no axis to vectorise, or its packed form is larger than what it is computed from.
std::optional<PackedOperand> PackedOf(ir::UOpContext& ctx, const Product& p, const Operand& packed,
                                      const Operand& other, double leaf_bytes,
                                      const Target& target);

// The value of the operand in packed order, and the operand as a view of its packed form.
ir::UOp Pack(ir::UOpContext& ctx, const PackedOperand& form, const Product& p, ir::UOp operand);
ir::UOp Unpack(ir::UOpContext& ctx, const PackedOperand& form, const Product& p, ir::UOp operand,
               ir::UOp packed);

}  // namespace uopd::schedule
