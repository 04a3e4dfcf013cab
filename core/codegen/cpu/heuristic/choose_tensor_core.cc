// SPDX-License-Identifier: MIT
// The step ChooseTensorCore of the heuristic (heuristic.cc): sums of products of small elements by
// matrix instructions.
//
// Invariant: TC is kept only if the vectors of ChooseVectors have as many lanes as the instruction,
// and if the target can execute its rows: by an instruction of one row, or in whole tiles.
#include <algorithm>
#include <tuple>

#include "core/codegen/cpu/heuristic/heuristic_steps.h"
#include "core/codegen/opts/make/tensor_core.h"
#include "core/codegen/passes/vectors/vectorise.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/simplify.h"

namespace uopd::codegen {
namespace {

// Whether the words that are loaded follow each other along the axis.
bool HasContiguousWords(const CpuChoice& choice, ir::UOp load, size_t axis) {
  const KernelFacts& facts = choice.facts;
  const int64_t k = choice.plan.maybe_instruction()->k;
  const ir::UOp words = ir::Range(facts.ctx, facts.ctx.Idx((facts.sizes[axis] + k - 1) / k),
                                  facts.axes[axis].axis_id(), ir::AxisType::REDUCE);
  const ir::UOp index =
      ir::Substitute(facts.ctx, load.src(0).src(1),
                     {{facts.axes[axis].id(), ir::Mul(facts.ctx, words, facts.ctx.Idx(k))}});
  return StrideAlong(facts.ctx, rules::Simplify(facts.ctx, index), words) == 1;
}

// The factors of each sum of products of small elements.
std::vector<Factors> FactorsOfSums(const KernelFacts& facts) {
  std::vector<Factors> out;
  for (ir::UOp u : ir::Toposort(facts.ctx, facts.sink)) {
    if (const auto factors = SmallFactors(u)) out.push_back(*factors);
  }
  return out;
}

// Whether the factor of a sum that is loaded here is a word in memory; `in_rows`: or elements that
// follow each other along the axis.
bool LiesInWords(const CpuChoice& choice, const Access& x, size_t words, bool in_rows) {
  const KernelFacts& facts = choice.facts;
  for (const Factors& factors : FactorsOfSums(facts)) {
    for (ir::UOp f : {factors.a, factors.b}) {
      const auto word = WordIn(f);
      if (word && std::ranges::find(word->loads, x.node) != word->loads.end())
        return !x.is_gated && (!in_rows || HasContiguousWords(choice, x.node, words));
      if (f == x.node) return in_rows && !x.is_gated && x.strides[words] == 1;
    }
  }
  return false;
}

// Whether some factor of a sum takes its elements out of words in memory along the axis.
bool HasWordsAlong(const KernelFacts& facts, size_t axis) {
  for (const Factors& factors : FactorsOfSums(facts)) {
    for (ir::UOp f : {factors.a, factors.b}) {
      const auto word = WordIn(f);
      if (word && ir::Reaches(facts.ctx, word->shift, facts.axes[axis])) return true;
    }
  }
  return false;
}

// Whether the vectors have this many lanes. Along an output axis what is loaded must also be used
// often enough, unless it lies in memory as words; along a reduced axis words cost no more than the
// conversions that they replace.
bool SuitsLanes(const CpuChoice& choice, int64_t lanes, bool has_words) {
  const KernelFacts& facts = choice.facts;
  for (size_t v = 0; v < facts.axes.size(); ++v) {
    if (choice.lanes[v] == 1) continue;
    if (choice.lanes[v] != lanes) return false;
    if (IsReduce(facts, v)) return true;
    for (const Access& x : facts.accesses) {
      const bool along = IsLoadOfSum(facts, x) && x.strides[v] != 0;
      if (along && (has_words || x.reuse >= kLeastReuse)) return true;
    }
  }
  return false;
}

// After a TC: 16 or 32 rows and one or two vectors of columns, if the target multiplies whole tiles
// of the same elements. Packs operands whose words do not lie in memory.
bool ChooseMatrixTile(CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  const MatrixInstruction& rows = *choice.plan.maybe_instruction();
  const MatrixInstruction* tile = TileInstruction(facts.target, rows);
  const auto tc = std::ranges::find(choice.plan.opts(), OptKind::kTensorCore, &Opt::kind);
  const auto words = static_cast<size_t>(tc->axis);
  if (tile == nullptr || choice.left[words] % (tile->k / rows.k) != 0) return false;
  const auto is_output = [&](size_t a) { return !IsReduce(facts, a) && facts.fixed[a]; };
  size_t columns = facts.axes.size(), best = facts.axes.size();
  for (size_t a = 0; a < facts.axes.size(); ++a) {
    if (is_output(a) && choice.lanes[a] == tile->n) columns = a;
  }
  if (columns == facts.axes.size()) return false;
  // Rows are an axis that only the other operand depends on.
  for (size_t a = 0; a < facts.axes.size(); ++a) {
    if (!is_output(a) || a == columns || choice.left[a] < tile->m) continue;
    bool only_rows = true, any = false;
    for (const Access& x : facts.accesses) {
      if (!IsLoadOfSum(facts, x) || x.strides[a] == 0) continue;
      any = true;
      only_rows = only_rows && x.strides[columns] == 0;
    }
    if (any && only_rows && (best == facts.axes.size() || choice.left[a] > choice.left[best]))
      best = a;
  }
  if (best == facts.axes.size()) return false;
  // Two tiles of rows share the loads of columns, unless many rows are computed twice.
  const bool two = choice.left[best] >= 2 * tile->m &&
                   4 * 2 * choice.Rounds(best, 2 * tile->m) <= 5 * choice.Rounds(best, tile->m);
  const std::vector<Opt> before = choice.plan.opts();
  const auto state = std::tuple(choice.left, choice.copies, choice.grown, choice.accumulators);
  bool fits = choice.Upcast(best, two ? 2 * tile->m : tile->m) &&
              (choice.left[columns] == 1 || choice.Upcast(columns, 2));
  const std::vector<ir::UOp> loads = Loads(facts.ctx, facts.sink);
  for (size_t i = 0; fits && i < loads.size(); ++i) {
    const auto x = std::ranges::find(facts.accesses, loads[i], &Access::node);
    if (x == facts.accesses.end() || (x->path & facts.reduces) == 0) continue;
    const bool of_rows = x->strides[best] != 0, of_columns = x->strides[columns] != 0;
    if ((of_rows || of_columns) && !LiesInWords(choice, *x, words, of_rows))
      fits = choice.Try({OptKind::kPack, static_cast<int>(i), 0});
  }
  if (fits) return true;
  choice.Restore(before);
  std::tie(choice.left, choice.copies, choice.grown, choice.accumulators) = state;
  return false;
}

// A matrix instruction with as many lanes as the vectors have. Of the reduced axes one along which
// the elements of words in memory lie is best, then one that needs no padding, then one along which
// elements are contiguous, then the longest. Returns whether the opts make whole tiles; TC by tiles
// alone is kept only then.
bool AddTensorCore(CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  if (facts.target.matrix_instructions.empty() || facts.has_stages) return false;
  std::vector<std::tuple<bool, bool, bool, int64_t, size_t>> order;
  for (size_t a = 0; a < facts.axes.size(); ++a) {
    if ((facts.reduces & AxisBit(a)) == 0 || !facts.fixed[a] || choice.left[a] < 2) continue;
    const bool contiguous =
        std::any_of(facts.accesses.begin(), facts.accesses.end(),
                    [&](const Access& x) { return !x.is_store && x.strides[a] == 1; });
    order.emplace_back(!HasWordsAlong(facts, a), facts.sizes[a] % 4 != 0, !contiguous,
                       -facts.sizes[a], a);
  }
  std::sort(order.begin(), order.end());
  const std::vector<Opt> before = choice.plan.opts();
  for (const auto& [no_words, padded, scattered, size, a] : order) {
    if (!choice.Try({OptKind::kTensorCore, static_cast<int>(a), 0})) continue;
    const MatrixInstruction instruction = *choice.plan.maybe_instruction();
    const int64_t left = choice.left[a];
    if (SuitsLanes(choice, instruction.n, !no_words)) {
      choice.left[a] = (choice.left[a] + instruction.k - 1) / instruction.k;
      if (ChooseMatrixTile(choice)) return true;
      if (std::ranges::find(facts.target.matrix_instructions, instruction) !=
          facts.target.matrix_instructions.end())
        return false;
      choice.left[a] = left;
    }
    choice.Restore(before);
  }
  return false;
}

}  // namespace

double WordCost(const CpuChoice& choice, const Access& a) {
  const KernelFacts& facts = choice.facts;
  const MatrixInstruction& instruction = *choice.plan.maybe_instruction();
  bool contiguous = false, bytes_differ = false;
  for (size_t i = 0; i < facts.axes.size(); ++i)
    contiguous |= (facts.reduces & AxisBit(i)) != 0 && a.strides[i] == 1;
  for (const Factors& f : FactorsOfSums(facts)) {
    if (f.a == a.node || f.b == a.node) bytes_differ = f.a.dtype() != f.b.dtype();
  }
  // An instruction takes a word that is loaded as it is out of memory, for all lanes.
  if (contiguous && bytes_differ) return 1;
  return (contiguous ? 1 : instruction.k) + (instruction.k == 4 ? 2 : 1);
}

double UnpackingCost(const CpuChoice& choice, const Access& a) {
  const KernelFacts& facts = choice.facts;
  for (const Factors& factors : FactorsOfSums(facts)) {
    for (ir::UOp f : {factors.a, factors.b}) {
      const auto word = WordIn(f);
      if (!word || word->loads[0] != a.node) continue;
      const auto nodes = ir::Toposort(facts.ctx, {&word->word, 1});
      return static_cast<double>(std::ranges::count_if(nodes, [](ir::UOp n) {
        return n.dtype() == ir::Dtype::U32 &&
               (n.Is(ir::Op::AND) || n.Is(ir::Op::OR) || n.Is(ir::Op::SHR) || n.Is(ir::Op::SHL));
      }));
    }
  }
  return 0;
}

void ChooseTensorCore(CpuChoice& choice) { choice.has_tile = AddTensorCore(choice); }

}  // namespace uopd::codegen
