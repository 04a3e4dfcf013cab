// SPDX-License-Identifier: MIT
#include <string_view>

#include "core/base/text.h"
#include "core/codegen/cpu/heuristic/heuristic_steps.h"
#include "core/rewrite/rewrite_trace.h"

namespace uopd::codegen {
namespace {

using Choice = const CpuChoice&;

bool Always(Choice) { return true; }
bool HasSums(Choice c) { return c.facts.reduces != 0; }
bool HasNoSums(Choice c) { return !HasSums(c); }
bool NeedsTile(Choice c) { return HasSums(c) && !c.has_tile; }
bool HasNoPanels(Choice c) { return !c.has_panels; }

struct CpuStep {
  std::string_view does;
  bool (*applies)(Choice);
  void (*choose)(CpuChoice&);
};

// In the order in which they run.
constexpr CpuStep kCpuSteps[] = {
    {"vectorises the axes with the largest saving under a cost model of accesses and arithmetic",
     Always, ChooseVectors},
    {"sums up products of small elements by matrix instructions", HasSums, ChooseTensorCore},
    {"upcasts output axes along which loads are shared (a register tile)", NeedsTile, ChooseTile},
    {"computes several sums of a stage at once", NeedsTile, ChooseStageUnroll},
    {"unrolls reductions until there are enough independent accumulators", NeedsTile, ChooseUnroll},
    {"upcasts output axes of kernels without reductions", HasNoSums, ChooseElementwiseUpcast},
    {"distributes an axis over threads", Always, ChooseThreads},
    {"cuts products of few rows with a large matrix, and long sums, into panels", Always,
     ChoosePanels},
    {"packs operands that many tiles read badly", HasNoPanels, ChoosePacks},
    // Prefetches: of the next row where a kernel goes over each row several times, and of operands
    // of matrix instructions that few tiles read.
    {"stores what no cache can hold around the caches, and prefetches", Always, ChooseMemoryOpts},
    {"divides the axis of threads into several parts for each", Always, ChooseParts},
};

}  // namespace

std::vector<Opt> CpuOpts(ir::UOpContext& ctx, ir::UOp sink, const Target& target) {
  CpuChoice choice(ctx, sink, target);
  for (const CpuStep& step : kCpuSteps) {
    if (!step.applies(choice)) continue;
    const size_t before = choice.plan.opts().size();
    step.choose(choice);
    const std::vector<Opt>& opts = choice.plan.opts();
    if (opts.size() <= before || !rewrite::TracesNotes()) continue;
    const std::vector<Opt> chosen(opts.begin() + static_cast<std::ptrdiff_t>(before), opts.end());
    rewrite::TraceNote(Cat(step.does, ": ", Text(chosen)));
  }
  return choice.plan.opts();
}

}  // namespace uopd::codegen
