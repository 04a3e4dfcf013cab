// SPDX-License-Identifier: MIT
// The arg of BULK_COPY (docs/ir_linear.md): how a buffer is a tensor, and which box of it one copy takes.
//
// Dimension 0 is the one whose elements follow each other. A box begins at coordinates that may lie outside of the
// tensor; elements there are zeros. In shared memory the rows of a box (along dimension 0) follow each other, the
// ones along dimension 1 next. A row is one *span* of 128, 64 or 32 bytes, and the spans are swizzled as those
// of SharedMatrix (group_mma.h).
//
// A launch has one map for each different one of the kernel's copies: the device makes it from the address of the
// buffer. The limits here are those of the hardware.
#pragma once
#include <vector>

#include "core/ir/context.h"

namespace uopd::ir {

struct TensorMap {
  static constexpr size_t kMostRank = 5;
  static constexpr int64_t kMostBox = 256,
                           kMostBytes = 1 << 20;  // of a box: elements along a dimension, bytes

  int64_t slot = 0;              // of the kernel's buffer
  int64_t element_bytes = 0;     // 1, 2 or 4
  int64_t span = 0;              // bytes
  std::vector<int64_t> dims;     // elements; the fastest first
  std::vector<int64_t> strides;  // bytes, of dimensions 1 and up
  std::vector<int64_t> box;      // elements

  size_t rank() const { return dims.size(); }
  int64_t rows() const;       // of a box
  int64_t box_bytes() const;  // of a box in shared memory
  // "" if the device can make such a map, else what is wrong. Any numbers.
  std::string MaybeWrong() const;
  // Where byte `address` of a swizzled array lies. An involution: it keeps atoms of 8 spans that begin at multiples of
  // their size.
  int64_t Swizzled(int64_t address) const {
    return address ^ ((address >> 3) & (span - 1) & ~int64_t{15});
  }
  bool operator==(const TensorMap&) const = default;

  // The slot and the size of an element are no part of the arg: the source of the copy has them.
  Arg ToArg(UOpContext& ctx) const;
  // Nothing if the numbers are no description; it may still be wrong. u: a BULK_COPY with a PARAM as source.
  static std::optional<TensorMap> MaybeOf(UOp u);
};

// The maps that the copies of a LINEAR need, each once, in the order of the lines. REQUIRES: it passed VerifyNode.
std::vector<TensorMap> TensorMapsOf(UOp linear);

}  // namespace uopd::ir
