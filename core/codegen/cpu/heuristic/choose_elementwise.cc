// SPDX-License-Identifier: MIT
// The copies of kernels without reductions (heuristic.cc): squares that are transposed in
// registers, or several vectors in each iteration.
#include <algorithm>

#include "core/codegen/cpu/heuristic/heuristic_steps.h"
#include "core/codegen/cpu/heuristic/vector_cost.h"

namespace uopd::codegen {
namespace {

constexpr int64_t kShortAxis = 4;  // copied whole, where copies share loads

// Whether every store writes the lanes of its vector next to each other.
bool VectorsAreStored(const CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  return std::all_of(facts.accesses.begin(), facts.accesses.end(), [&](const Access& x) {
    for (size_t v = 0; v < facts.axes.size() && x.is_store; ++v) {
      if (choice.lanes[v] > 1 && x.strides[v] != 1) return false;
    }
    return true;
  });
}

// Upcasts a short axis whole if its iterations share a load of a vector: both results of a step of
// a sort come from the same two elements.
void ChooseSharedCopies(CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  for (size_t a = facts.axes.size(); a-- > 0;) {
    if (choice.lanes[a] > 1 || !facts.fixed[a] || choice.left[a] < 2 || choice.left[a] > kShortAxis)
      continue;
    const bool shared = std::any_of(
        facts.accesses.begin(), facts.accesses.end(),
        [&](const Access& x) { return !x.is_store && x.strides[a] == 0 && HasLanes(choice, x); });
    if (shared && VectorsAreStored(choice) && choice.Upcast(a, choice.left[a])) return;
  }
}

// Where a vector is gathered from rows whose elements lie next to each other along another axis,
// as many copies of that axis as there are lanes are a square that is transposed in registers
// (cpu/passes/transpose_loads.h).
bool ChooseSquare(CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  for (const Access& x : facts.accesses) {
    for (size_t v = 0; v < facts.axes.size(); ++v) {
      const auto across = SquareAxis(facts, x, v, choice.lanes[v]);
      if (across && choice.Upcast(*across, choice.lanes[v])) return true;
    }
  }
  return false;
}

}  // namespace

void ChooseElementwiseUpcast(CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  if (ChooseSquare(choice)) return;
  ChooseSharedCopies(choice);
  for (size_t a = facts.axes.size(); a-- > 0;) {
    if (choice.lanes[a] == 1 || !facts.fixed[a]) continue;
    for (int64_t n : {4, 2}) {
      if (facts.alu.size() > 24 || choice.left[a] % n != 0 || choice.left[a] < 2 * n) continue;
      if (choice.Upcast(a, n)) return;
    }
  }
}

}  // namespace uopd::codegen
