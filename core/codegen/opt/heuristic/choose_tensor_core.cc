// SPDX-License-Identifier: MIT
// Step 2 of the heuristic (heuristic_steps.h): sums of products of small elements by matrix
// instructions.
//
// Invariant: TC is kept only if the vectors of step 1 have as many lanes as the instruction.
#include <algorithm>
#include <tuple>

#include "core/codegen/opt/heuristic/heuristic_steps.h"
#include "core/codegen/opt/tensor_core.h"
#include "core/ir/graph.h"

namespace uopd::codegen {

void Heuristic::ChooseTensorCore() {
  if (target_.matrix_instructions.empty() || has_stages_) return;
  std::vector<std::tuple<bool, bool, bool, int64_t, size_t>> order;
  for (size_t a = 0; a < axes_.size(); ++a) {
    if ((reduces_ & Bit(a)) == 0 || !fixed_[a] || left_[a] < 2) continue;
    const bool contiguous = std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& x) {
      return !x.is_store && x.strides[a] == 1;
    });
    order.emplace_back(!HasWordsAlong(a), sizes_[a] % 4 != 0, !contiguous, -sizes_[a], a);
  }
  std::sort(order.begin(), order.end());
  const std::vector<Opt> before = plan_.opts();
  for (const auto& [no_words, padded, scattered, size, a] : order) {
    if (!Try({OptKind::kTensorCore, static_cast<int>(a), 0})) continue;
    const MatrixInstruction& instruction = *plan_.maybe_instruction();
    if (SuitsLanes(instruction.n, !no_words)) {
      left_[a] = (left_[a] + instruction.k - 1) / instruction.k;
      return;
    }
    plan_.Clear();
    for (const Opt& o : before) UOPD_CHECK(Try(o));
  }
}

bool Heuristic::HasWordsAlong(size_t axis) const {
  for (ir::UOp u : ir::Toposort(ctx_, sink_)) {
    const auto factors = SmallFactors(u);
    if (!factors) continue;
    for (ir::UOp f : {factors->a, factors->b}) {
      const auto word = WordIn(f);
      if (word && ir::Reaches(ctx_, word->shift, axes_[axis])) return true;
    }
  }
  return false;
}

bool Heuristic::SuitsLanes(int64_t lanes, bool has_words) const {
  for (size_t v = 0; v < axes_.size(); ++v) {
    if (lanes_[v] == 1) continue;
    if (lanes_[v] != lanes) return false;
    if (IsReduce(v)) return true;
    for (const Access& x : accesses_) {
      const bool along = !x.is_store && (x.path & reduces_) != 0 && x.strides[v] != 0;
      if (along && (has_words || x.reuse >= kLeastReuse)) return true;
    }
  }
  return false;
}

double Heuristic::WordCost(const Access& a) const {
  const MatrixInstruction& instruction = *plan_.maybe_instruction();
  bool contiguous = false;
  for (size_t i = 0; i < axes_.size(); ++i)
    contiguous |= (reduces_ & Bit(i)) != 0 && a.strides[i] == 1;
  return (contiguous ? 1 : instruction.k) + (instruction.k == 4 ? 2 : 1);
}

}  // namespace uopd::codegen
