// SPDX-License-Identifier: MIT
// CpuChoice: what the steps of the heuristic for CPUs have chosen so far.
//
// Invariant: after each step, lanes, left, copies, grown and accumulators describe the opts that
// plan holds. Exception: panels and parts of threads, which no later step reads.
#pragma once
#include <span>
#include <vector>

#include "core/codegen/cpu/heuristic/memory_opts.h"
#include "core/codegen/opts/choose/kernel_facts.h"
#include "core/codegen/opts/opt_plan.h"

namespace uopd::codegen {

// Not thread-safe. The context and the target must outlive it.
struct CpuChoice {
  // REQUIRES: as FactsOf.
  CpuChoice(ir::UOpContext& ctx, ir::UOp sink, const Target& target);

  bool Try(const Opt& opt) { return plan.Add(opt).ok(); }
  // Tries an opt that makes n copies of every node that depends on its axis. Refuses if the kernel
  // would grow so long that compiling it is slow.
  bool TryCopies(const Opt& opt, int64_t n);
  bool Upcast(size_t axis, int64_t amount);
  // Replaces the opts of the plan. REQUIRES: they apply.
  void Restore(std::span<const Opt> opts);
  int64_t Rounds(size_t axis, int64_t amount) const { return (left[axis] + amount - 1) / amount; }

  const KernelFacts facts;
  OptPlan plan;
  // By axis: lanes of its vector; iterations left after the opts so far; copies by UPCAST and
  // UNROLL.
  std::vector<int64_t> lanes, left, copies;
  std::vector<double> grown;  // by axis: copies that all opts together make
  int64_t accumulators = 1;
  bool has_tile = false;     // a matrix instruction has its tile: the sums need no other opts
  bool has_panels = false;   // the reductions are cut into panels
  bool scan_chunks = false;  // chunks of running sums are distributed over threads
};

// Whether the access is one of a vector.
bool HasLanes(const CpuChoice& choice, const Access& a);

// The axes after the opts so far.
std::vector<MemoryAxis> MemoryAxes(const CpuChoice& choice);

}  // namespace uopd::codegen
