// SPDX-License-Identifier: MIT
// SharedRows: how rows of 32-bit words lie in the memory that a block shares.
//
// Memory has 32 banks: word i is in bank i % 32, and the words of a warp's access that lie in one
// bank are read one after the other. A warp reads an operand of a matrix instruction as pieces of
// four words of eight neighbouring rows. Two layouts put these eight pieces in different banks:
//   - padded: the distance between rows is an odd number of pieces;
//   - swizzled (ir::SharedMatrix): each row is cut in spans of 8, 16 or 32 words. Spans of the same
//     place in all rows lie one after the other, without padding, and the pieces of a span in an
//     order that depends on the row.
// Every piece is aligned to 16 bytes. Instructions that read matrices in shared memory know the
// second layout.
//
// A value. Thread-safe.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "core/ir/context.h"
#include "core/ir/group_mma.h"

namespace uopd::codegen {

class SharedRows {
 public:
  static constexpr int64_t kPiece = 4;  // words
  static constexpr int64_t kSpanBytes[] = {128, 64, 32};

  // Padded. REQUIRES: positive numbers.
  SharedRows(int64_t rows, int64_t words) : rows_(rows) {
    const int64_t pieces = (words + kPiece - 1) / kPiece;
    stride_ = (pieces | 1) * kPiece;
  }
  // Swizzled. The size is a multiple of 1024 bytes, so that the array begins at such a multiple
  // (ir::SharedLayout). REQUIRES: positive numbers; a whole number of spans of `span_bytes` in a
  // row; if there are several, then spans of all rows that are a multiple of 1024 bytes.
  static SharedRows Swizzled(int64_t rows, int64_t words, int64_t span_bytes);
  // The widest span that divides a number of bytes; 0: none does.
  static int64_t WidestSpan(int64_t bytes);

  // Words from row to row; of swizzled rows, from a span to that of the next row.
  int64_t stride() const { return stride_; }
  int64_t size() const;  // words of all rows
  int64_t At(int64_t row, int64_t word) const;
  // The same as an expression of dtype index.
  ir::UOp Index(ir::UOpContext& ctx, ir::UOp row, ir::UOp word) const;
  // The same without the order of pieces in a span: where an instruction begins to read that knows
  // this order. REQUIRES: swizzled; the row is a multiple of 8.
  ir::UOp Start(ir::UOpContext& ctx, ir::UOp row, ir::UOp word) const;
  // How an instruction reads rows from there on; `along_sum`: the words of a row follow each other
  // along the sum. REQUIRES: swizzled.
  ir::SharedMatrix Matrix(bool along_sum) const;

  bool operator==(const SharedRows&) const = default;

 private:
  int64_t rows_, stride_;
  int64_t spans_ = 0;  // of a row, if swizzled; else 0
};

// How many words of one bank a warp's access of these words reads at most, one after the other: 1
// is the best. Lanes that read the same word share it.
int64_t WordsOfOneBank(std::span<const int64_t> words);

}  // namespace uopd::codegen
