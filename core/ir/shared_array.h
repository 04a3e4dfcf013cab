// SPDX-License-Identifier: MIT
// Arrays that the threads of a launch share: BUFFER {LOCAL} of a linear kernel (docs/ir_linear.md).
#pragma once
#include <cstdint>

#include "core/ir/uop.h"

namespace uopd::ir {

// Bytes of an element: the value, and kSharedFlag bytes after its start an i32 that is not 0 once the
// value is stored.
inline constexpr int64_t kSharedElement = 16, kSharedFlag = 8;

inline bool IsShared(UOp buffer) {
  return buffer.Is(Op::BUFFER) && buffer.addrspace() == AddrSpace::LOCAL;
}

}  // namespace uopd::ir
