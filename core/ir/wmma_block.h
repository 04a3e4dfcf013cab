// SPDX-License-Identifier: MIT
// The arg of WMMA_BLOCK, which multiplies two matrices of words (docs/ir_linear.md).
#pragma once
#include "core/ir/context.h"

namespace uopd::ir {

// sums[i * columns + j] = the sum over k < words of the products of the elements of word k of row i
// and word (k, j). Counts are positive.
struct WmmaBlock {
  int64_t a = 0, b = 0;           // dtype numbers of the elements of rows and of columns
  int64_t rows = 0, columns = 0;  // of the sums
  int64_t words = 0;              // that each sum adds up
  int64_t row_stride = 0;         // from row to row, in elements of the buffer of rows
  int64_t word_stride = 0;        // from word to word of a column, in words

  Arg ToArg(UOpContext& ctx) const {
    return ctx.Data({a, b, rows, columns, words, row_stride, word_stride});
  }
  // REQUIRES: u is a WMMA_BLOCK that VerifyNode accepts.
  static WmmaBlock Of(UOp u) {
    const auto n = u.ints();
    return {n[0], n[1], n[2], n[3], n[4], n[5], n[6]};
  }
};

}  // namespace uopd::ir
