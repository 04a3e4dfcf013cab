// SPDX-License-Identifier: MIT
// Random tensor graphs, valid by construction: movement, elementwise, broadcast, reduce, where,
// cast, assignment.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

#include "core/ir/context.h"
#include "tests/support/tensor_interpreter.h"

namespace uopd::testing {

struct GeneratedGraph {
  ir::UOp sink;
  std::vector<HostArray> slots;  // small integer values, so that float sums are exact in any order
};

// The same seed gives the same graph. `ops` nodes are tried; some give nothing new.
GeneratedGraph GenerateGraph(ir::UOpContext& ctx, uint64_t seed, int ops);

}  // namespace uopd::testing
