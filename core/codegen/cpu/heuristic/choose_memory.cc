// SPDX-License-Identifier: MIT
// The steps ChoosePanels, ChoosePacks and ChooseMemoryOpts of the heuristic (heuristic.cc): packed
// operands, panels, stores around the caches and prefetches.
//
// Invariant: panels bring PACKs of their own, so a kernel with panels gets no further ones.
#include <algorithm>
#include <cmath>

#include "core/codegen/cpu/heuristic/heuristic_steps.h"
#include "core/codegen/cpu/heuristic/operand_prefetch.h"
#include "core/codegen/cpu/heuristic/panel_opts.h"
#include "core/codegen/passes/vectors/vectorise.h"

namespace uopd::codegen {
namespace {

constexpr double kLeastWordReuse = 2;  // tiles that read packed words of a matrix instruction
constexpr double kManyRows = 600;      // more than these want entries of the page table at once

// Panels (panel_opts.h). All of their opts apply, or none is added.
bool AddPanels(CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  if (!CanPack(facts) || choice.plan.maybe_instruction() != nullptr) return false;
  const std::vector<MemoryAxis> axes = MemoryAxes(choice);
  std::vector<Opt> opts = PanelOpts(facts.ctx, facts.sink, facts.target, axes);
  if (opts.empty()) opts = LongSumOpts(facts.ctx, facts.sink, facts.target, axes);
  const std::vector<Opt> before = choice.plan.opts();
  for (const Opt& opt : opts) {
    if (choice.Try(opt)) continue;
    choice.Restore(before);
    return false;
  }
  return !opts.empty();
}

}  // namespace

void ChoosePacks(CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  if (!CanPack(facts) || facts.reduces == 0) return;
  const std::vector<ir::UOp> loads = Loads(facts.ctx, facts.sink);
  for (size_t n = 0; n < loads.size(); ++n) {
    double reused = 1, rows = 1;
    bool gathers = false, vector = false;
    const auto access = std::find_if(facts.accesses.begin(), facts.accesses.end(),
                                     [&](const Access& x) { return x.node == loads[n]; });
    for (size_t a = 0; a < facts.axes.size(); ++a) {
      const auto stride = access->strides[a];
      if (IsStoredAlong(facts, a)) {
        if (stride == 0 && !IsReduce(facts, a) && IsRepeated(facts, *access, a))
          reused *= static_cast<double>(choice.left[a]);
        vector |= stride != 0 && choice.lanes[a] > 1;
        gathers |= choice.lanes[a] > 1 && stride != 0 &&
                   (!stride || *stride < 1 || *stride > kSmallStride);
      } else if (choice.plan.maybe_instruction() != nullptr && !stride &&
                 ir::Bits(loads[n].dtype()) == 32) {
        continue;  // neighbours share words: the steps between words are short
      } else if (!stride || std::abs(*stride) * facts.widest >= kRowBytes) {
        rows *= static_cast<double>(facts.sizes[a]);
      }
    }
    // Words that lie in memory as such need no copy.
    const bool in_words = choice.plan.maybe_instruction() != nullptr && reused >= kLeastWordReuse &&
                          ir::Bits(loads[n].dtype()) < 32;
    if (!vector || (reused < kLeastReuse && !in_words)) continue;
    if (in_words || gathers || rows > kManyRows)
      (void)choice.Try({OptKind::kPack, static_cast<int>(n), 0});
  }
}

void ChooseMemoryOpts(CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  if (facts.target.warp_lanes > 1) return;
  for (const Opt& opt : MemoryOpts(facts.ctx, facts.sink, facts.target, MemoryAxes(choice)))
    (void)choice.Try(opt);
  // While a thread computes the running sums of one chunk, memory sends its next one.
  for (size_t n = 0; choice.scan_chunks && n < Reads(facts.ctx, facts.sink).size(); ++n)
    (void)choice.Try({OptKind::kPrefetch, static_cast<int>(n), 0});
  // Sums of f32 take longer than the operands take to arrive: there, prefetching them gains
  // nothing.
  if (choice.plan.maybe_instruction() == nullptr) return;
  const std::vector<Opt> chosen = choice.plan.opts();
  for (const Opt& opt :
       OperandPrefetches(facts.ctx, facts.sink, facts.target, MemoryAxes(choice), chosen))
    (void)choice.Try(opt);
}

void ChoosePanels(CpuChoice& choice) { choice.has_panels = AddPanels(choice); }

}  // namespace uopd::codegen
