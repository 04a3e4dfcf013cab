// SPDX-License-Identifier: MIT
// Step 1 of the heuristic (heuristic_steps.h): the axes whose iterations become lanes of vectors.
//
// Invariant: a cost is an estimate of the instructions that all iterations of one axis execute, for a
// number of lanes; the saving is the difference to the scalar loop. Only savings are compared.
#include <algorithm>
#include <bit>
#include <tuple>

#include "core/codegen/cpu/heuristic/heuristic_steps.h"
#include "core/codegen/passes/vectorise.h"

namespace uopd::codegen {
namespace {

constexpr size_t kMostInterleaved = 24;    // arithmetic ops of a kernel that LLVM vectorises
constexpr int64_t kLongAxis = 64;          // long enough for vectors of interleaved elements
constexpr int64_t kLeastPanelVectors = 2;  // that a tile needs of a packed panel
constexpr double kTileRows = 8;            // rows of a usual tile
constexpr double kGatherCost = 2;          // cost of one lane of a gather, in loads
constexpr int64_t kMostLaneLoads =
    256;  // with a branch each: compiling many takes far more than linear time
constexpr double kScatterLoss = 1.1;  // of sums that are scattered: decides between near equals
constexpr double kScatterCost = 2.5;  // of a scatter: more, since a gather may become a square

}  // namespace

void Heuristic::ChooseVectors() {
  const int64_t most = std::max<int64_t>(1, target_.vector_bytes / lane_bytes_);
  struct Candidate {
    double saved;
    size_t axis;
    int64_t lanes;
  };
  std::vector<Candidate> candidates;
  for (size_t a = 0; a < axes_.size() && !Interleaves(); ++a) {
    const double scalar = Cost(a, 1);
    const auto alone = std::count_if(accesses_.begin(), accesses_.end(),
                                     [&](const Access& x) { return LoadsByLane(x, a); });
    for (int64_t lanes = most; lanes > 1; lanes /= 2) {
      if (lanes / 2 >= sizes_[a]) continue;  // half as many lanes hold the whole axis
      if (alone * lanes > kMostLaneLoads) continue;
      const double cost = Cost(a, lanes);
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
  for (size_t first = 0; first < candidates.size() && (first == 0 || has_stages_); ++first) {
    double saved = 0;
    plan_.Clear();
    lanes_.assign(axes_.size(), 1);
    for (size_t i = 0; i <= candidates.size(); ++i) {
      const Candidate& c = candidates[i == 0 ? first : i - 1];
      if (lanes_[c.axis] > 1) continue;
      if (!Try({OptKind::kVector, static_cast<int>(c.axis), c.lanes})) continue;
      lanes_[c.axis] = c.lanes;
      saved += c.saved;
    }
    if (saved > most_saved) {
      most_saved = saved;
      best = plan_.opts();
    }
  }
  plan_.Clear();
  for (const Opt& o : best) UOPD_CHECK(Try(o));
  lanes_.assign(axes_.size(), 1);
  for (const Opt& o : best) lanes_[static_cast<size_t>(o.axis)] = o.amount;
  left_.resize(axes_.size());
  for (size_t a = 0; a < axes_.size(); ++a) left_[a] = (sizes_[a] + lanes_[a] - 1) / lanes_[a];
  copies_.assign(axes_.size(), 1);
  grown_.assign(axes_.size(), 1);
}

bool Heuristic::Interleaves() const {
  if (reduces_ != 0 || has_stages_ || alu_.size() > kMostInterleaved) return false;
  for (size_t a = 0; a < axes_.size(); ++a) {
    for (const Access& x : accesses_) {
      const int64_t stride = x.strides[a].value_or(0);
      if (x.is_store && stride > 1 && stride <= kSmallStride && sizes_[a] >= kLongAxis) return true;
    }
  }
  return false;
}

double Heuristic::Cost(size_t axis, int64_t lanes) const {
  const int64_t size = sizes_[axis];
  const int64_t vectors = (size + lanes - 1) / lanes;
  const double used = static_cast<double>(size) / static_cast<double>(vectors);
  double cost = 0;
  for (const Access& a : accesses_) {
    if ((a.path & Bit(axis)) == 0) continue;
    cost += Times(a.path) * (lanes == 1 ? 1.0 : LoadsOf(a, axis, lanes) / used);
  }
  for (AxisSet path : alu_) cost += (path & Bit(axis)) != 0 ? Times(path) / used : 0.0;
  for (const Result& r : results_) {
    if (lanes > 1 && (r.over & Bit(axis)) != 0) {
      cost += Times(r.path) * 3 * std::countr_zero(static_cast<uint64_t>(lanes));
    }
  }
  return lanes > 1 && Scatters(axis) ? kScatterLoss * cost : cost;
}

bool Heuristic::LoadsByLane(const Access& a, size_t axis) const {
  return a.strides[axis] == 0 && !a.is_store && (a.gate_along & Bit(axis)) != 0;
}

bool Heuristic::Scatters(size_t axis) const {
  return reduces_ != 0 && !has_stages_ && !IsReduce(axis) &&
         std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& x) {
           return x.is_store && x.strides[axis].value_or(kRowBytes) > kSmallStride;
         });
}

double Heuristic::LoadsOf(const Access& a, size_t axis, int64_t lanes) const {
  const auto stride = a.strides[axis];
  if (LoadsByLane(a, axis)) return kGatherCost * static_cast<double>(lanes);
  if (stride == 0 || stride == 1) return 1;
  const bool few = stride && *stride > 1 && *stride <= std::min(kSmallStride, lanes - 1);
  if (few && !a.is_store) return 2 * static_cast<double>(*stride) - 1;
  if (SquareAxis(a, axis, lanes)) return 1 + std::countr_zero(static_cast<uint64_t>(lanes));
  const double gather = (a.is_store ? kScatterCost : kGatherCost) * static_cast<double>(lanes);
  // Packed once, then read as a vector. What it costs to scatter results counts by itself.
  return Packs(a, axis, lanes) ? 1 + gather / a.reuse : gather;
}

bool Heuristic::Packs(const Access& a, size_t axis, int64_t lanes) const {
  constexpr double kLeast = kLeastReuse * kTileRows;
  if (a.reuse < kLeast || !IsStoredAlong(axis)) return false;
  return !Scatters(axis) ||
         (Executions(a) >= kLeast && PanelVectors(a, lanes) >= kLeastPanelVectors);
}

double Heuristic::Executions(const Access& a) const {
  AxisSet again = 0;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (!IsReduce(i) && a.strides[i] == 0) again |= a.path & Bit(i);
  }
  return Times(again);
}

int64_t Heuristic::PanelVectors(const Access& a, int64_t lanes) const {
  const double panel = static_cast<double>(lanes * widest_) * Times(a.path & reduces_);
  return static_cast<int64_t>(static_cast<double>(target_.private_bytes) / panel);
}

}  // namespace uopd::codegen
