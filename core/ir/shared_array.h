// SPDX-License-Identifier: MIT
// Arrays that threads share: BUFFER {LOCAL} of a linear kernel (docs/ir_linear.md).
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/ir/context.h"

namespace uopd::ir {

// On targets without blocks the threads of a launch share the array. Bytes of an element: the
// value, and kSharedFlag bytes after its start an i32 that is not 0 once the value is stored.
inline constexpr int64_t kSharedElement = 16, kSharedFlag = 8;

inline bool IsShared(UOp buffer) {
  return buffer.Is(Op::BUFFER) && buffer.addrspace() == AddrSpace::LOCAL;
}

// Where the shared arrays of a block lie: one after the other in the order of their lines. An array
// begins at a multiple of the largest power of two that divides its size in bytes, of kAlignment at
// least and of kMostAlignment at most.
class SharedLayout {
 public:
  static constexpr int64_t kAlignment = 128, kMostAlignment = 1024;

  // The offset of the next array in bytes. REQUIRES: IsShared(array), of constant size.
  int64_t Place(UOpContext& ctx, UOp array) {
    return PlaceBytes((*ctx.ShapeOf(array))[0].const_int() * ByteSize(array.dtype()));
  }
  // The same of an array of so many bytes.
  int64_t PlaceBytes(int64_t size) {
    const int64_t alignment = std::clamp(size & -size, kAlignment, kMostAlignment);
    const auto rounded = [](int64_t n, int64_t to) { return (n + to - 1) / to * to; };
    const int64_t at = rounded(bytes_, alignment);
    bytes_ = at + rounded(size, kAlignment);
    return at;
  }
  int64_t bytes() const { return bytes_; }  // of all arrays so far

 private:
  int64_t bytes_ = 0;
};

}  // namespace uopd::ir
