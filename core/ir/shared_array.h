// SPDX-License-Identifier: MIT
// Arrays that threads share: BUFFER {LOCAL} of a linear kernel (docs/ir_linear.md).
#pragma once
#include <cstdint>

#include "core/ir/context.h"

namespace uopd::ir {

// On targets without blocks the threads of a launch share the array. Bytes of an element: the value,
// and kSharedFlag bytes after its start an i32 that is not 0 once the value is stored.
inline constexpr int64_t kSharedElement = 16, kSharedFlag = 8;

inline bool IsShared(UOp buffer) {
  return buffer.Is(Op::BUFFER) && buffer.addrspace() == AddrSpace::LOCAL;
}

// Where the shared arrays of a block lie: one after the other in the order of their lines.
class SharedLayout {
 public:
  static constexpr int64_t kAlignment = 128;  // of the start of each array, in bytes

  // The offset of the next array in bytes. REQUIRES: IsShared(array), of constant size.
  int64_t Place(UOpContext& ctx, UOp array) {
    const int64_t at = bytes_;
    const int64_t elements = (*ctx.ShapeOf(array))[0].const_int();
    bytes_ += (elements * ByteSize(array.dtype()) + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
  int64_t bytes() const { return bytes_; }  // of all arrays so far

 private:
  int64_t bytes_ = 0;
};

}  // namespace uopd::ir
