// SPDX-License-Identifier: MIT
// Step 2 of the heuristic (heuristic_steps.h): sums of products of small elements by matrix
// instructions.
//
// Invariant: TC is kept only if the vectors of step 1 have as many lanes as the instruction, and if the
// target can execute its rows: by an instruction of one row, or in whole tiles.
#include <algorithm>
#include <tuple>

#include "core/codegen/cpu/heuristic/heuristic_steps.h"
#include "core/codegen/opts/make/tensor_core.h"
#include "core/codegen/passes/vectorise.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/simplify.h"

namespace uopd::codegen {

bool Heuristic::ChooseTensorCore() {
  if (target_.matrix_instructions.empty() || has_stages_) return false;
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
    const MatrixInstruction instruction = *plan_.maybe_instruction();
    const int64_t left = left_[a];
    if (SuitsLanes(instruction.n, !no_words)) {
      left_[a] = (left_[a] + instruction.k - 1) / instruction.k;
      if (ChooseMatrixTile()) return true;
      if (std::ranges::find(target_.matrix_instructions, instruction) !=
          target_.matrix_instructions.end())
        return false;
      left_[a] = left;
    }
    plan_.Clear();
    for (const Opt& o : before) UOPD_CHECK(Try(o));
  }
  return false;
}

bool Heuristic::ChooseMatrixTile() {
  const MatrixInstruction& rows = *plan_.maybe_instruction();
  const MatrixInstruction* tile = TileInstruction(target_, rows);
  const auto tc = std::ranges::find(plan_.opts(), OptKind::kTensorCore, &Opt::kind);
  const auto words = static_cast<size_t>(tc->axis);
  if (tile == nullptr || left_[words] % (tile->k / rows.k) != 0) return false;
  const auto is_output = [&](size_t a) { return !IsReduce(a) && fixed_[a]; };
  size_t columns = axes_.size(), best = axes_.size();
  for (size_t a = 0; a < axes_.size(); ++a) {
    if (is_output(a) && lanes_[a] == tile->n) columns = a;
  }
  if (columns == axes_.size()) return false;
  // Rows are an axis that only the other operand depends on.
  for (size_t a = 0; a < axes_.size(); ++a) {
    if (!is_output(a) || a == columns || left_[a] < tile->m) continue;
    bool only_rows = true, any = false;
    for (const Access& x : accesses_) {
      if (x.is_store || (x.path & reduces_) == 0 || x.strides[a] == 0) continue;
      any = true;
      only_rows = only_rows && x.strides[columns] == 0;
    }
    if (any && only_rows && (best == axes_.size() || left_[a] > left_[best])) best = a;
  }
  if (best == axes_.size()) return false;
  // Two tiles of rows share the loads of columns, unless many rows are computed twice.
  const bool two =
      left_[best] >= 2 * tile->m && 4 * 2 * Rounds(best, 2 * tile->m) <= 5 * Rounds(best, tile->m);
  const std::vector<Opt> before = plan_.opts();
  const auto state = std::tuple(left_, copies_, grown_, accumulators_);
  bool fits =
      Upcast(best, two ? 2 * tile->m : tile->m) && (left_[columns] == 1 || Upcast(columns, 2));
  const std::vector<ir::UOp> loads = codegen::Loads(ctx_, sink_);
  for (size_t i = 0; fits && i < loads.size(); ++i) {
    const auto x = std::ranges::find(accesses_, loads[i], &Access::node);
    if (x == accesses_.end() || (x->path & reduces_) == 0) continue;
    const bool of_rows = x->strides[best] != 0, of_columns = x->strides[columns] != 0;
    if ((of_rows || of_columns) && !LiesInWords(*x, words, of_rows))
      fits = Try({OptKind::kPack, static_cast<int>(i), 0});
  }
  if (fits) return true;
  plan_.Clear();
  for (const Opt& o : before) UOPD_CHECK(Try(o));
  std::tie(left_, copies_, grown_, accumulators_) = state;
  return false;
}

bool Heuristic::LiesInWords(const Access& x, size_t words, bool in_rows) const {
  for (ir::UOp u : ir::Toposort(ctx_, sink_)) {
    const auto factors = SmallFactors(u);
    if (!factors) continue;
    for (ir::UOp f : {factors->a, factors->b}) {
      if (const auto word = WordIn(f); word && word->load == x.node)
        return !x.is_gated && (!in_rows || HasContiguousWords(x.node, words));
      if (f == x.node) return in_rows && !x.is_gated && x.strides[words] == 1;
    }
  }
  return false;
}

bool Heuristic::HasContiguousWords(ir::UOp load, size_t axis) const {
  const int64_t k = plan_.maybe_instruction()->k;
  const ir::UOp words = ir::Range(ctx_, ctx_.Idx((sizes_[axis] + k - 1) / k), axes_[axis].axis_id(),
                                  ir::AxisType::REDUCE);
  const ir::UOp index = ir::Substitute(ctx_, load.src(0).src(1),
                                       {{axes_[axis].id(), ir::Mul(ctx_, words, ctx_.Idx(k))}});
  return StrideAlong(ctx_, rules::Simplify(ctx_, index), words) == 1;
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
