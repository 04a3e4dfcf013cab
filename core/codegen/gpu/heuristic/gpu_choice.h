// SPDX-License-Identifier: MIT
// GpuChoice: what the steps of the heuristic for targets with blocks have chosen so far, and what
// several steps ask about a kernel.
//
// Invariant: left and threads describe the opts that plan holds.
#pragma once
#include <vector>

#include "core/codegen/opts/choose/kernel_facts.h"
#include "core/codegen/opts/opt_plan.h"

namespace uopd::codegen {

// Not thread-safe. The context and the target must outlive it.
struct GpuChoice {
  // REQUIRES: as FactsOf; target.blocks.
  GpuChoice(ir::UOpContext& ctx, ir::UOp sink, const Target& target)
      : facts(FactsOf(ctx, sink, target)), plan(ctx, sink, target), left(facts.sizes) {}

  bool Add(OptKind kind, size_t axis, int64_t amount, int64_t warps = 0);
  void Restart() {
    plan.Clear();
    left = facts.sizes;
  }

  const KernelFacts facts;
  OptPlan plan;
  std::vector<int64_t> left;  // iterations left of each axis
  int64_t threads = 1;        // of a block, along output axes
  int64_t group = 1;          // threads of the groups
};

// Whether the iterations of an output axis become blocks: every long reduction depends on the
// axis.
bool BecomesGrid(const KernelFacts& facts, size_t axis);

// The product of the sizes of the output axes that become blocks or threads.
double GridResults(const KernelFacts& facts);

// Whether all stores are contiguous along the axis, or all loads if `loads`.
bool IsContiguous(const KernelFacts& facts, size_t axis, bool loads);

}  // namespace uopd::codegen
