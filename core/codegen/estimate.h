// SPDX-License-Identifier: MIT
// An estimate of the work of a kernel graph: arithmetic and memory traffic.
//
// Computed on the graph before opts are applied. The heuristic chooses the number of threads with
// it; reports show it.
#pragma once
#include "core/base/target/dtype_number.h"
#include "core/ir/context.h"

namespace uopd::codegen {

struct Estimate {
  double flops = 0;  // operations on values (not on indices or bools); MULACC counts as two
  double bytes = 0;  // loaded plus stored; each buffer counts at most its size per direction
  // The dtype of most of the operations; void without operations. An f32 sum of products whose
  // operands are casts from one small float counts as that small float.
  DtypeNumber dtype = DtypeNumber::Void;
};

// For one launch with every variable at its maximum. REQUIRES: a verified kernel graph.
Estimate EstimateKernel(ir::UOpContext& ctx, ir::UOp sink);

}  // namespace uopd::codegen
