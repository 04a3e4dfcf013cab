// SPDX-License-Identifier: MIT
// TensorMap: how a buffer of a kernel is a tensor, and which box of it one copy takes (BULK_COPY in
// docs/ir_linear.md). Codegen makes it, the launch carries it, and the device makes its own form of
// it from the address of the buffer.
//
// Dimension 0 is the one whose elements follow each other. A box begins at coordinates that may lie
// outside of the tensor; elements there are zeros. In shared memory the rows of a box (along
// dimension 0) follow each other, the ones along dimension 1 next. A row is one *span* of 128, 64
// or 32 bytes, and the spans are swizzled as those of SharedMatrix (core/ir/group_mma.h).
//
// The limits here are those of the hardware. A value.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/bytes.h"

namespace uopd {

struct TensorMap {
  static constexpr size_t kMostRank = 5;
  static constexpr int64_t kMostBox = 256;        // elements of a box along a dimension
  static constexpr int64_t kMostBytes = 1 << 20;  // of a box, and of what a barrier counts

  int64_t slot = 0;              // of the kernel's buffer
  int64_t element_bytes = 0;     // 1, 2 or 4
  int64_t span = 0;              // bytes
  std::vector<int64_t> dims;     // elements; the fastest first
  std::vector<int64_t> strides;  // bytes, of dimensions 1 and up
  std::vector<int64_t> box;      // elements

  size_t rank() const { return dims.size(); }
  int64_t rows() const;       // of a box
  int64_t box_bytes() const;  // of a box in shared memory
  // From the first byte of the tensor to its last one: what the buffer must have behind the
  // address. INT64_MAX: more than any buffer. REQUIRES: MaybeWrong() is "".
  int64_t tensor_bytes() const;
  // "" if a device can make such a map, else what is wrong. Any numbers.
  std::string MaybeWrong() const;
  // Where byte `address` of a swizzled array lies. An involution: it keeps atoms of 8 spans that
  // begin at multiples of their size.
  int64_t Swizzled(int64_t address) const {
    return address ^ ((address >> 3) & (span - 1) & ~int64_t{15});
  }
  bool operator==(const TensorMap&) const = default;

  void Encode(std::string& out) const;
  // False unless the bytes are a map that is right.
  static bool Decode(ByteReader& in, TensorMap& out);
};

// Several maps, with their number.
void EncodeTensorMaps(const std::vector<TensorMap>& maps, std::string& out);
bool DecodeTensorMaps(ByteReader& in, std::vector<TensorMap>& out);

}  // namespace uopd
