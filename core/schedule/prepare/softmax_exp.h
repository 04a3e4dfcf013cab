// SPDX-License-Identifier: MIT
// Softmaxes made with EXP, as programs write them, in the form that the steps after this one know:
// with EXP2.
//
// Where exponentials of what scores are below their maximum are used for nothing but their quotient
// by their sum, EXP(off) becomes EXP2(off * log2(e)). The product is rounded, so a term e^off has
// an error of |off| units, which is less than half a unit of the sum.
#pragma once
#include <vector>

#include "core/ir/context.h"

namespace uopd::schedule {

// REQUIRES: `order` is the graph, sources first. The graph with other nodes for such EXPs of f32
// and f64.
ir::UOp LowerSoftmaxExponentials(ir::UOpContext& ctx, const std::vector<ir::UOp>& order);

}  // namespace uopd::schedule
