// SPDX-License-Identifier: MIT
// SharedRows: how rows of 32-bit words lie in the memory that a block shares.
//
// Memory has 32 banks: word i is in bank i % 32, and the words of a warp's access that lie in one bank are read one
// after the other. A warp reads an operand of a matrix instruction as pieces of four words of eight neighbouring
// rows. So the distance between rows is an odd number of pieces: the eight pieces take all banks. Every piece is
// aligned to 16 bytes.
//
// A value. Thread-safe.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "core/ir/context.h"

namespace uopd::codegen {

class SharedRows {
 public:
  static constexpr int64_t kBanks = 32;  // of 32-bit words
  static constexpr int64_t kPiece = 4;   // words

  // REQUIRES: positive numbers.
  SharedRows(int64_t rows, int64_t words) : rows_(rows) {
    const int64_t pieces = (words + kPiece - 1) / kPiece;
    stride_ = (pieces | 1) * kPiece;
  }

  int64_t stride() const { return stride_; }        // words from row to row
  int64_t size() const { return rows_ * stride_; }  // words of all rows
  int64_t At(int64_t row, int64_t word) const { return row * stride_ + word; }
  // The same as an expression of dtype index.
  ir::UOp Index(ir::UOpContext& ctx, ir::UOp row, ir::UOp word) const;

  bool operator==(const SharedRows&) const = default;

 private:
  int64_t rows_, stride_;
};

// How many words of one bank a warp's access of these words reads at most, one after the other: 1 is the best.
// Lanes that read the same word share it.
int64_t WordsOfOneBank(std::span<const int64_t> words);

}  // namespace uopd::codegen
