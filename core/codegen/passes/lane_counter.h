// SPDX-License-Identifier: MIT
// The number of lanes of the lines of a linear kernel.
#pragma once
#include <algorithm>
#include <vector>

#include "core/ir/context.h"

namespace uopd::codegen {

// Computes the number of lanes of each line from those of its sources. (ShapeOf would remember a
// shape for every line, also for those that AddPolls replaces.)
class LaneCounter {
 public:
  explicit LaneCounter(const ir::UOpContext& ctx) : lanes_(ctx.size(), 1) {}

  // The lanes of u; of the stored value if u is a STORE. Call it in the order of the lines.
  int64_t Count(ir::UOp u) {
    int64_t lanes = 1;
    switch (u.op()) {
      case ir::Op::STACK:
        lanes = static_cast<int64_t>(u.n_src());
        break;
      case ir::Op::LOAD:
        lanes = std::max<int64_t>(1, u.src(0).arg().AsInt());
        break;
      case ir::Op::MATRIX_LOAD:
        lanes = u.ints()[0];
        break;
      case ir::Op::GEP:
        break;
      case ir::Op::STORE:
        return lanes_[u.src(1).id()];
      default:
        for (ir::UOp s : u.srcs()) lanes = std::max<int64_t>(lanes, lanes_[s.id()]);
    }
    lanes_[u.id()] = static_cast<int32_t>(lanes);
    return lanes;
  }

 private:
  std::vector<int32_t> lanes_;  // by id
};

}  // namespace uopd::codegen
