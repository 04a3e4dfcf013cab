// SPDX-License-Identifier: MIT
// Which BUFFERs of registers are accumulators: every access is to the whole BUFFER, so that it is
// one value. The others are arrays of a thread. Not thread-safe.
#pragma once
#include <algorithm>
#include <set>

#include "core/render/lines.h"

namespace uopd::render {

class Accumulators {
 public:
  // Looks at all accesses. Before everything else.
  void Find(ir::UOpContext& ctx, ir::UOp linear) {
    for (ir::UOp u : linear.srcs()) {
      if (!u.Is(ir::Op::INDEX)) continue;
      const ir::UOp base = ir::MaybeBaseOf(u.src(0));
      if (!IsRegister(base)) continue;
      const int64_t lanes = std::max<int64_t>(1, u.arg().AsInt());
      if (!u.src(1).IsConstInt(0) || lanes != (*ctx.ShapeOf(base))[0].const_int())
        arrays_.insert(base.id());
    }
  }
  // REQUIRES: IsRegister(buffer).
  bool IsArray(ir::UOp buffer) const { return arrays_.contains(buffer.id()); }
  // Whether an INDEX is of an accumulator.
  bool Contain(ir::UOp index) const {
    const ir::UOp base = ir::MaybeBaseOf(index.src(0));
    return IsRegister(base) && !IsArray(base);
  }

 private:
  std::set<uint32_t> arrays_;  // node ids
};

}  // namespace uopd::render
