// SPDX-License-Identifier: MIT
// What renderers ask of a program's lines.
#pragma once
#include "core/ir/context.h"
#include "core/ir/spec.h"

namespace uopd::render {

// Lanes of a value: 0 for a scalar.
inline int64_t Lanes(ir::UOpContext& ctx, ir::UOp u) {
  const ir::Shape* shape = ctx.ShapeOf(u);
  return shape == nullptr || shape->empty() ? 0 : (*shape)[0].const_int();
}

inline bool IsRegister(ir::UOp buffer) {
  return buffer.Is(ir::Op::BUFFER) && buffer.addrspace() == ir::AddrSpace::REG;
}

}  // namespace uopd::render
