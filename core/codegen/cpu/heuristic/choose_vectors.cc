// SPDX-License-Identifier: MIT
// The step ChooseVectors of the heuristic (heuristic.cc): the axes whose iterations become lanes of
// vectors.
#include <algorithm>
#include <tuple>

#include "core/codegen/cpu/heuristic/heuristic_steps.h"
#include "core/codegen/cpu/heuristic/vector_cost.h"
#include "core/codegen/passes/vectors/vectorise.h"

namespace uopd::codegen {
namespace {

constexpr size_t kMostInterleaved = 24;  // arithmetic ops of a kernel that LLVM vectorises
constexpr int64_t kLongAxis = 64;        // long enough for vectors of interleaved elements
constexpr int64_t kMostLaneLoads =
    256;  // with a branch each: compiling many takes far more than linear time

// Whether a kernel with little arithmetic writes elements of a long axis two to four elements
// apart. VECTOR would store them lane by lane; LLVM makes contiguous vectors of the elements in
// between.
bool Interleaves(const KernelFacts& facts) {
  if (facts.reduces != 0 || facts.has_stages || facts.alu.size() > kMostInterleaved) return false;
  for (size_t a = 0; a < facts.axes.size(); ++a) {
    for (const Access& x : facts.accesses) {
      const int64_t stride = x.strides[a].value_or(0);
      if (x.is_store && stride > 1 && stride <= kSmallStride && facts.sizes[a] >= kLongAxis)
        return true;
    }
  }
  return false;
}

}  // namespace

void ChooseVectors(CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  const int64_t most = std::max<int64_t>(1, facts.target.vector_bytes / facts.lane_bytes);
  struct Candidate {
    double saved;
    size_t axis;
    int64_t lanes;
  };
  std::vector<Candidate> candidates;
  for (size_t a = 0; a < facts.axes.size() && !Interleaves(facts); ++a) {
    const double scalar = CostOfVectors(facts, a, 1);
    const auto alone = std::count_if(facts.accesses.begin(), facts.accesses.end(),
                                     [&](const Access& x) { return LoadsByLane(facts, x, a); });
    for (int64_t lanes = most; lanes > 1; lanes /= 2) {
      if (lanes / 2 >= facts.sizes[a]) continue;  // half as many lanes hold the whole axis
      if (alone * lanes > kMostLaneLoads) continue;
      const double cost = CostOfVectors(facts, a, lanes);
      if (cost < 0.9 * scalar) candidates.push_back({scalar - cost, a, lanes});
    }
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& x, const Candidate& y) {
    return std::tuple(-x.saved, x.axis, -x.lanes) < std::tuple(-y.saved, y.axis, -y.lanes);
  });
  // The candidate that saves most may exclude several that save more together. So each candidate
  // is tried first once. Only kernels with stages have loops for several vectors; the others try
  // one order.
  double most_saved = -1;
  std::vector<Opt> best;
  for (size_t first = 0; first < candidates.size() && (first == 0 || facts.has_stages); ++first) {
    double saved = 0;
    choice.plan.Clear();
    choice.lanes.assign(facts.axes.size(), 1);
    for (size_t i = 0; i <= candidates.size(); ++i) {
      const Candidate& c = candidates[i == 0 ? first : i - 1];
      if (choice.lanes[c.axis] > 1) continue;
      if (!choice.Try({OptKind::kVector, static_cast<int>(c.axis), c.lanes})) continue;
      choice.lanes[c.axis] = c.lanes;
      saved += c.saved;
    }
    if (saved > most_saved) {
      most_saved = saved;
      best = choice.plan.opts();
    }
  }
  choice.Restore(best);
  choice.lanes.assign(facts.axes.size(), 1);
  for (const Opt& o : best) choice.lanes[static_cast<size_t>(o.axis)] = o.amount;
  for (size_t a = 0; a < facts.axes.size(); ++a)
    choice.left[a] = (facts.sizes[a] + choice.lanes[a] - 1) / choice.lanes[a];
}

}  // namespace uopd::codegen
