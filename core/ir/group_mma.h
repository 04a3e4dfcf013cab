// SPDX-License-Identifier: MIT
// The arg of GROUP_PRODUCT and GROUP_MMA (docs/ir_linear.md): a matrix instruction of several
// warps, whose operands lie in shared memory.
//
// An operand has lines of 8 of its rows (or columns): of a's rows, of b's columns. In memory its
// elements follow each other either along the sum or along these lines. The bytes that follow each
// other are a *span* of 128, 64 or 32 bytes. Eight spans, one after the other, are an *atom*. The
// memory is swizzled: inside of each span the piece of 16 bytes with number p is at p ^ x, where x
// is made of the address's bits from bit 7 on. So pieces with equal numbers in eight neighbouring
// spans lie in different banks.
#pragma once
#include "core/ir/context.h"

namespace uopd::ir {

struct SharedMatrix {
  int64_t span = 0;       // bytes: 128, 64 or 32
  bool along_sum = true;  // elements of a span follow each other along the sum
  // Bytes. Along the sum: `stride` is from eight rows to the next eight, and `lead` is not used;
  // all steps of one instruction lie in one span. Else: `lead` is from a span to the next one of
  // the same step, and `stride` from eight steps to the next eight.
  int64_t lead = 0, stride = 0;

  // Bytes from element (0, 0) to the element of row `row` and step `k`, before the memory is
  // swizzled.
  int64_t ByteOf(int64_t row, int64_t k, int64_t element_bytes) const {
    if (along_sum) return row / 8 * stride + row % 8 * span + k * element_bytes;
    const int64_t in_span = span / element_bytes;
    return row / in_span * lead + row % in_span * element_bytes + k / 8 * stride + k % 8 * span;
  }
  // Where the byte with this address lies. An involution: it keeps atoms that begin at multiples of
  // 1024 bytes.
  int64_t Swizzled(int64_t address) const {
    return address ^ ((address >> 3) & (span - 1) & ~int64_t{15});
  }
  bool IsValid() const {
    const auto fits = [](int64_t bytes) {
      return bytes >= 0 && bytes < 1 << 18 && bytes % 16 == 0;
    };
    return (span == 128 || span == 64 || span == 32) && fits(lead) && fits(stride);
  }
  bool operator==(const SharedMatrix&) const = default;
};

struct GroupMma {
  static constexpr size_t kNumbers = 14;
  static constexpr int64_t kAlignment = 1024;  // of the arrays of operands, in bytes

  int64_t m = 0, n = 0, k = 0;  // of the matrices
  int64_t a = 0, b = 0;         // dtype numbers of the elements
  int64_t lanes = 0;            // of all warps of the group
  SharedMatrix a_matrix, b_matrix;

  // Elements of the sum in one lane.
  int64_t results() const { return lanes > 0 ? m * n / lanes : 0; }

  Arg ToArg(UOpContext& ctx) const {
    return ctx.Data({m, n, k, a, b, lanes, a_matrix.span, a_matrix.along_sum ? 1 : 0, a_matrix.lead,
                     a_matrix.stride, b_matrix.span, b_matrix.along_sum ? 1 : 0, b_matrix.lead,
                     b_matrix.stride});
  }
  // REQUIRES: u has kNumbers numbers.
  static GroupMma Of(UOp u) {
    const auto v = u.ints();
    return {v[0],
            v[1],
            v[2],
            v[3],
            v[4],
            v[5],
            {v[6], v[7] != 0, v[8], v[9]},
            {v[10], v[11] != 0, v[12], v[13]}};
  }
};

}  // namespace uopd::ir
