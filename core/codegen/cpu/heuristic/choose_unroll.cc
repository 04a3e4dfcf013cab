// SPDX-License-Identifier: MIT
// Step 4 of the heuristic (heuristic_steps.h): the reduced axes and the axes of stages that are
// unrolled.
//
// Invariant: accumulators and the vectors that LLVM loads ahead fit in the registers together.
#include <algorithm>
#include <cmath>

#include "core/codegen/cpu/heuristic/heuristic_steps.h"

namespace uopd::codegen {

void Heuristic::ChooseStageUnroll() {
  for (const StagedSums& s : staged_sums_) {
    const size_t a = s.innermost;
    int64_t copies = 1;
    for (size_t i = 0; i < axes_.size(); ++i) copies *= (s.along & Bit(i)) != 0 ? copies_[i] : 1;
    // Lanes along the stage: each vector of one operand is used by all copies. Lanes along the sum:
    // joining them takes registers too.
    const int64_t registers = target_.vector_registers;
    const int64_t most = std::max<int64_t>(
        1, lanes_[a] > 1 ? (registers - 1) / (copies + 1) : registers / 2 / copies);
    const int64_t n = StageAmount(a, most);
    if (n > 1 && TryCopies({OptKind::kUnroll, static_cast<int>(a), n}, n)) {
      left_[a] = (left_[a] + n - 1) / n;
      copies_[a] *= n;
    }
    // Also unroll the reduction inside the stage whole, if its loop-invariant vectors fit in
    // registers.
    for (size_t e = 0; e < axes_.size(); ++e) {
      if ((reduces_ & Bit(e)) == 0 || !fixed_[e] || lanes_[e] == 1 || left_[e] == 1) continue;
      if (copies * copies_[a] + copies * left_[e] + 1 > target_.vector_registers) continue;
      if (Inside(e, a) && TryCopies({OptKind::kUnroll, static_cast<int>(e), 0}, left_[e]))
        left_[e] = 1;
    }
  }
}

int64_t Heuristic::StageAmount(size_t axis, int64_t most) const {
  if (!fixed_[axis]) return std::min<int64_t>(most, 8);
  most = std::min(most, left_[axis]);
  for (int64_t n = most; 2 * n > most && n > 1; --n) {
    if (left_[axis] % n == 0) return n;
  }
  for (int64_t n = most; n > 1; --n) {
    if ((left_[axis] + n - 1) / n * n * 10 <= 11 * left_[axis]) return n;
  }
  return 1;
}

bool Heuristic::Inside(size_t e, size_t a) const {
  return std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& x) {
    return (x.path & Bit(e)) != 0 && (x.path & Bit(a)) != 0;
  });
}

void Heuristic::ChooseUnroll() {
  size_t innermost = axes_.size();
  for (size_t a = 0; a < axes_.size(); ++a) {
    if ((reduces_ & Bit(a)) != 0 && fixed_[a] && left_[a] > 1 && !staged_over_[a]) innermost = a;
  }
  for (size_t a = axes_.size(); a-- > 0;) {
    if ((reduces_ & Bit(a)) == 0 || !fixed_[a] || left_[a] == 1 || staged_over_[a]) continue;
    if (unrolls_whole_) {
      TryCopies({OptKind::kUnroll, static_cast<int>(a), 0}, left_[a]);
      continue;
    }
    // A short innermost loop costs as much as its body, and its gates become constants.
    if (a == innermost && SlidesTooFar(a)) continue;
    if (a == innermost && left_[a] <= kShortLoop && StepsFit(left_[a]) &&
        TryCopies({OptKind::kUnroll, static_cast<int>(a), 0}, left_[a])) {
      left_[a] = 1;
      if (accumulators_ >= 8) return;
      continue;
    }
    const int64_t want = accumulators_ >= 8 ? 2 : 8 / accumulators_;
    for (int64_t n : {8, 4, 2}) {
      if (n > want || left_[a] % n != 0 || left_[a] < n || !StepsFit(n)) continue;
      if (TryCopies({OptKind::kUnroll, static_cast<int>(a), n}, n)) {
        left_[a] /= n;
        // One unrolled axis is enough. If it is the innermost one, the sum adds its terms in their order, as
        // it does in a kernel that has one axis in place of several.
        if (accumulators_ >= 8) return;
        break;
      }
    }
  }
}

bool Heuristic::StepsFit(int64_t n) const {
  if (has_stages_) return true;
  int64_t most = 0;
  for (const Access& x : accesses_) {
    if (x.is_store || (x.path & reduces_) == 0) continue;
    int64_t vectors = 0;
    for (size_t a = 0; a < axes_.size(); ++a) {
      if (lanes_[a] == 1 || IsReduce(a) || x.strides[a] != 1) continue;
      vectors = std::max<int64_t>(vectors, 1);
    }
    for (size_t a = 0; a < axes_.size() && vectors > 0; ++a)
      vectors *= x.strides[a] != 0 && !IsReduce(a) ? copies_[a] : 1;
    most = std::max(most, std::min(std::max(vectors, kLoadedTogether), n * vectors));
  }
  return accumulators_ * std::max<int64_t>(1, static_cast<int64_t>(results_.size())) + most + 1 <=
         target_.vector_registers;
}

bool Heuristic::SlidesTooFar(size_t axis) const {
  for (const Access& x : accesses_) {
    if (x.is_store || (x.path & reduces_) == 0 || x.strides[axis].value_or(0) == 0) continue;
    for (size_t u = 0; u < axes_.size(); ++u) {
      const int64_t step = x.strides[u].value_or(0);
      if (IsReduce(u) || copies_[u] == 1 || step == 0 || *x.strides[axis] % step != 0) continue;
      const int64_t slide = std::abs(*x.strides[axis] / step);
      if (slide >= copies_[u]) continue;
      const int64_t elements = copies_[u] + (left_[axis] - 1) * slide;
      if (accumulators_ + elements > target_.vector_registers) return true;
    }
  }
  return false;
}

}  // namespace uopd::codegen
