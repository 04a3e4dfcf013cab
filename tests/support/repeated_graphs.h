// SPDX-License-Identifier: MIT
// Graphs that repeat one structure n times: what the cost of scheduling must grow with, and no
// faster.
#pragma once
#include <string_view>
#include <vector>

#include "core/ir/context.h"

namespace uopd::testing {

struct Repeated {
  std::string_view name;
  ir::UOp (*build)(ir::UOpContext& ctx, int n);  // a SINK, of which something occurs n times
};

// Every structure, by name. Nodes are proportional to n, no more than some twenty times it.
const std::vector<Repeated>& RepeatedGraphs();

}  // namespace uopd::testing
