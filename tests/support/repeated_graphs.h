// SPDX-License-Identifier: MIT
// Graphs that repeat one structure n times. Tests check that the cost of scheduling grows no faster
// than n.
#pragma once
#include <string_view>
#include <vector>

#include "core/ir/context.h"

namespace uopd::test {

struct Repeated {
  std::string_view name;
  ir::UOp (*build)(ir::UOpContext& ctx, int n);  // a SINK with n repetitions
};

// All structures. The number of nodes is proportional to n, at most about 20 n.
const std::vector<Repeated>& RepeatedGraphs();

}  // namespace uopd::test
