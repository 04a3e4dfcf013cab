// SPDX-License-Identifier: MIT
// How much work a kernel graph is: what reports and opts are weighed with.
#pragma once
#include "core/ir/context.h"

namespace uopd::codegen {

struct Estimate {
  double flops = 0;  // arithmetic on values, not on indices; a multiply-add counts two
  double bytes = 0;  // of every buffer once for each direction, at most its size
};

// For one launch with variables at their largest. REQUIRES: a verified kernel graph.
Estimate EstimateKernel(ir::UOpContext& ctx, ir::UOp sink);

}  // namespace uopd::codegen
