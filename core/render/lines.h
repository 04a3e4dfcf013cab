// SPDX-License-Identifier: MIT
// Queries about the lines of a linear kernel that all renderers share.
#pragma once
#include "core/ir/context.h"
#include "core/ir/shared_array.h"
#include "core/ir/verify/spec.h"

namespace uopd::render {

// The number of lanes of a vector; 0 for a scalar.
inline int64_t Lanes(ir::UOpContext& ctx, ir::UOp u) {
  const ir::Shape* shape = ctx.ShapeOf(u);
  return shape == nullptr || shape->empty() ? 0 : (*shape)[0].const_int();
}

inline bool IsRegister(ir::UOp buffer) {
  return buffer.Is(ir::Op::BUFFER) && buffer.addrspace() == ir::AddrSpace::REG;
}

using ir::IsShared;
using ir::kSharedElement;
using ir::kSharedFlag;

}  // namespace uopd::render
