// SPDX-License-Identifier: MIT
// The decisions of fusion.h turned into kernel graphs over placeholders for buffers.
#pragma once
#include <vector>

#include "core/rewrite/rewriter.h"
#include "core/schedule/fusion.h"

namespace uopd::schedule {

// A buffer as kernels read it: one storage in one state. Reads of different states are different
// placeholders, so that a kernel cannot mix them unnoticed.
struct Placeholder {
  int32_t storage = -1;
  ir::UOp after;  // the AFTER through which it is read; null: before all stores, or a temporary
  ir::UOp node;   // BUFFER {number of the placeholder}
};

struct Kernel {
  uint32_t root = 0;
  ir::UOp sink;                 // SINK {kernel}, simplified, buffers still placeholders
  std::vector<uint32_t> reads;  // placeholders, in order of first use
  uint32_t write = 0;           // placeholder
  // Reads of the stored buffer at another element than the one being stored: running the kernel in
  // place would be wrong.
  bool hazard = false;
};

struct Lowered {
  std::vector<Placeholder> placeholders;
  std::vector<Kernel> kernels;  // for every root that is no copy and not empty
};

Lowered LowerRoots(ir::UOpContext& ctx, rewrite::Rewriter& simplify, Fusion& fusion);

// The kernel as codegen takes it: buffers numbered as in `buffers` (placeholder of PARAM k), ranges
// renumbered in nesting order, adjacent ranges merged where that makes indices no harder.
ir::UOp FinishKernel(ir::UOpContext& ctx, rewrite::Rewriter& simplify, const Lowered& lowered,
                     const Fusion& fusion, const Kernel& kernel, std::vector<int32_t>& storages);

}  // namespace uopd::schedule
