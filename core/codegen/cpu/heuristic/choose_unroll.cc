// SPDX-License-Identifier: MIT
// The steps ChooseStageUnroll and ChooseUnroll of the heuristic (heuristic.cc): the reduced axes
// and the axes of stages that are unrolled.
//
// Invariant: accumulators and the vectors that LLVM loads ahead fit in the registers together.
#include <algorithm>
#include <cmath>

#include "core/codegen/cpu/heuristic/heuristic_steps.h"

namespace uopd::codegen {
namespace {

// The amount to unroll a stage's axis by, at most `most`: a divisor of the axis above most / 2,
// else the largest amount that pads the axis by at most a tenth, else 1. At most 8 for an axis of
// symbolic size.
int64_t StageAmount(const CpuChoice& choice, size_t axis, int64_t most) {
  const KernelFacts& facts = choice.facts;
  if (!facts.fixed[axis]) return std::min<int64_t>(most, 8);
  most = std::min(most, choice.left[axis]);
  for (int64_t n = most; 2 * n > most && n > 1; --n) {
    if (choice.left[axis] % n == 0) return n;
  }
  for (int64_t n = most; n > 1; --n) {
    if ((choice.left[axis] + n - 1) / n * n * 10 <= 11 * choice.left[axis]) return n;
  }
  return 1;
}

// Whether some access is inside the loops of both axes: then the loop over e is inside that over
// a.
bool ShareLoops(const KernelFacts& facts, size_t e, size_t a) {
  return std::any_of(facts.accesses.begin(), facts.accesses.end(), [&](const Access& x) {
    return (x.path & AxisBit(e)) != 0 && (x.path & AxisBit(a)) != 0;
  });
}

// Whether n steps of the reduction fit in the registers. LLVM loads vectors that are less than 512
// bytes apart, up to four, right after the first of them, also those of later steps. One register
// too few would cost dearly: then LLVM keeps most accumulators in memory.
bool StepsFit(const CpuChoice& choice, int64_t n) {
  const KernelFacts& facts = choice.facts;
  if (facts.has_stages) return true;
  int64_t most = 0;
  for (const Access& x : facts.accesses) {
    if (!IsLoadOfSum(facts, x)) continue;
    int64_t vectors = 0;
    for (size_t a = 0; a < facts.axes.size(); ++a) {
      if (choice.lanes[a] == 1 || IsReduce(facts, a) || x.strides[a] != 1) continue;
      vectors = std::max<int64_t>(vectors, 1);
    }
    for (size_t a = 0; a < facts.axes.size() && vectors > 0; ++a)
      vectors *= x.strides[a] != 0 && !IsReduce(facts, a) ? choice.copies[a] : 1;
    most = std::max(most, std::min(std::max(vectors, kLoadedTogether), n * vectors));
  }
  return choice.accumulators * std::max<int64_t>(1, static_cast<int64_t>(facts.results.size())) +
             most + 1 <=
         facts.target.vector_registers;
}

// Whether unrolling the axis whole makes neighbouring copies load the same elements, as the
// windows of a convolution do, and these elements do not fit in the registers beside the
// accumulators: LLVM would keep them from one term to the next.
bool SlidesTooFar(const CpuChoice& choice, size_t axis) {
  const KernelFacts& facts = choice.facts;
  for (const Access& x : facts.accesses) {
    if (!IsLoadOfSum(facts, x) || x.strides[axis].value_or(0) == 0) continue;
    for (size_t u = 0; u < facts.axes.size(); ++u) {
      const int64_t step = x.strides[u].value_or(0);
      if (IsReduce(facts, u) || choice.copies[u] == 1 || step == 0 || *x.strides[axis] % step != 0)
        continue;
      const int64_t slide = std::abs(*x.strides[axis] / step);
      if (slide >= choice.copies[u]) continue;
      const int64_t elements = choice.copies[u] + (choice.left[axis] - 1) * slide;
      if (choice.accumulators + elements > facts.target.vector_registers) return true;
    }
  }
  return false;
}

}  // namespace

void ChooseStageUnroll(CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  for (const StagedSums& s : facts.staged_sums) {
    const size_t a = s.innermost;
    int64_t copies = 1;
    for (size_t i = 0; i < facts.axes.size(); ++i)
      copies *= (s.along & AxisBit(i)) != 0 ? choice.copies[i] : 1;
    // Lanes along the stage: each vector of one operand is used by all copies. Lanes along the sum:
    // joining them takes registers too.
    const int64_t registers = facts.target.vector_registers;
    const int64_t most = std::max<int64_t>(
        1, choice.lanes[a] > 1 ? (registers - 1) / (copies + 1) : registers / 2 / copies);
    const int64_t n = StageAmount(choice, a, most);
    if (n > 1 && choice.TryCopies({OptKind::kUnroll, static_cast<int>(a), n}, n)) {
      choice.left[a] = (choice.left[a] + n - 1) / n;
      choice.copies[a] *= n;
    }
    // Also unroll the reduction inside the stage whole, if its loop-invariant vectors fit in
    // registers.
    for (size_t e = 0; e < facts.axes.size(); ++e) {
      if ((facts.reduces & AxisBit(e)) == 0 || !facts.fixed[e] || choice.lanes[e] == 1 ||
          choice.left[e] == 1)
        continue;
      if (copies * choice.copies[a] + copies * choice.left[e] + 1 > facts.target.vector_registers)
        continue;
      if (ShareLoops(facts, e, a) &&
          choice.TryCopies({OptKind::kUnroll, static_cast<int>(e), 0}, choice.left[e]))
        choice.left[e] = 1;
    }
  }
}

void ChooseUnroll(CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  size_t innermost = facts.axes.size();
  for (size_t a = 0; a < facts.axes.size(); ++a) {
    if ((facts.reduces & AxisBit(a)) != 0 && facts.fixed[a] && choice.left[a] > 1 &&
        !facts.staged_over[a])
      innermost = a;
  }
  for (size_t a = facts.axes.size(); a-- > 0;) {
    if ((facts.reduces & AxisBit(a)) == 0 || !facts.fixed[a] || choice.left[a] == 1 ||
        facts.staged_over[a])
      continue;
    if (facts.unrolls_whole) {
      choice.TryCopies({OptKind::kUnroll, static_cast<int>(a), 0}, choice.left[a]);
      continue;
    }
    // A short innermost loop costs as much as its body, and its gates become constants.
    if (a == innermost && SlidesTooFar(choice, a)) continue;
    if (a == innermost && choice.left[a] <= kShortLoop && StepsFit(choice, choice.left[a]) &&
        choice.TryCopies({OptKind::kUnroll, static_cast<int>(a), 0}, choice.left[a])) {
      choice.left[a] = 1;
      if (choice.accumulators >= 8) return;
      continue;
    }
    const int64_t want = choice.accumulators >= 8 ? 2 : 8 / choice.accumulators;
    for (int64_t n : {8, 4, 2}) {
      if (n > want || choice.left[a] % n != 0 || choice.left[a] < n || !StepsFit(choice, n))
        continue;
      if (choice.TryCopies({OptKind::kUnroll, static_cast<int>(a), n}, n)) {
        choice.left[a] /= n;
        // One unrolled axis is enough. If it is the innermost one, the sum adds its terms in their
        // order, as it does in a kernel that has one axis in place of several.
        if (choice.accumulators >= 8) return;
        break;
      }
    }
  }
}

}  // namespace uopd::codegen
