// SPDX-License-Identifier: MIT
#include "core/codegen/cpu/heuristic/cpu_choice.h"

namespace uopd::codegen {
namespace {

constexpr double kMostLines = 8000;  // estimated limit on the length of the kernel

// Estimated lines of the kernel with the copies of all opts so far.
double Lines(const KernelFacts& facts, const std::vector<double>& grown) {
  double all = 0;
  for (const auto& [along, lines] : facts.lines) {
    double copies = lines;
    for (size_t a = 0; a < facts.axes.size(); ++a)
      copies *= (along & AxisBit(a)) != 0 ? grown[a] : 1;
    all += copies;
  }
  return all;
}

}  // namespace

CpuChoice::CpuChoice(ir::UOpContext& ctx, ir::UOp sink, const Target& target)
    : facts(FactsOf(ctx, sink, target)),
      plan(ctx, sink, target),
      lanes(facts.axes.size(), 1),
      left(facts.sizes),
      copies(facts.axes.size(), 1),
      grown(facts.axes.size(), 1) {}

void CpuChoice::Restore(std::span<const Opt> opts) {
  plan.Clear();
  for (const Opt& opt : opts) UOPD_CHECK(Try(opt));
}

bool CpuChoice::TryCopies(const Opt& opt, int64_t n) {
  const auto axis = static_cast<size_t>(opt.axis);
  grown[axis] *= static_cast<double>(n);
  if (Lines(facts, grown) <= kMostLines && Try(opt)) return true;
  grown[axis] /= static_cast<double>(n);
  return false;
}

bool CpuChoice::Upcast(size_t axis, int64_t amount) {
  if (amount == 1) return true;
  if (!TryCopies({OptKind::kUpcast, static_cast<int>(axis), amount}, amount)) return false;
  left[axis] = Rounds(axis, amount);
  accumulators *= amount;
  copies[axis] *= amount;
  return true;
}

bool HasLanes(const CpuChoice& choice, const Access& a) {
  const KernelFacts& facts = choice.facts;
  for (size_t i = 0; i < facts.axes.size(); ++i) {
    if (choice.lanes[i] > 1 && a.strides[i] != 0) return true;
  }
  return false;
}

std::vector<MemoryAxis> MemoryAxes(const CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  std::vector<MemoryAxis> out;
  for (size_t a = 0; a < facts.axes.size(); ++a) {
    const int64_t tile = IsReduce(facts, a) ? (facts.sizes[a] + choice.left[a] - 1) / choice.left[a]
                                            : choice.lanes[a] * choice.copies[a];
    out.push_back({facts.axes[a], facts.sizes[a], choice.lanes[a], tile, choice.left[a],
                   facts.fixed[a], IsReduce(facts, a)});
  }
  return out;
}

}  // namespace uopd::codegen
