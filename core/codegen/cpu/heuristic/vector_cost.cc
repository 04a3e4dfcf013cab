// SPDX-License-Identifier: MIT
#include "core/codegen/cpu/heuristic/vector_cost.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/codegen/cpu/heuristic/heuristic_steps.h"
#include "core/codegen/passes/vectors/vectorise.h"

namespace uopd::codegen {
namespace {

constexpr int64_t kLeastPanelVectors =
    2;                                // a tile reads at least so many vectors of a packed panel
constexpr double kTileRows = 8;       // rows of a usual tile
constexpr double kGatherCost = 2;     // cost of one lane of a gather, in loads
constexpr double kScatterLoss = 1.1;  // of sums that are scattered: decides between near equals
constexpr double kScatterCost = 2.5;  // of a scatter: more, since a gather may become a square

// How often the loops execute the access for one address. Unlike Access::reuse, loops do not count
// that the access stands outside of: the sum of a row is computed once for all results of the row.
double Executions(const KernelFacts& facts, const Access& a) {
  AxisSet again = 0;
  for (size_t i = 0; i < facts.axes.size(); ++i) {
    if (!IsReduce(facts, i) && a.strides[i] == 0) again |= a.path & AxisBit(i);
  }
  return Times(facts, again);
}

}  // namespace

double CostOfVectors(const KernelFacts& facts, size_t axis, int64_t lanes) {
  const int64_t size = facts.sizes[axis];
  const int64_t vectors = (size + lanes - 1) / lanes;
  const double used = static_cast<double>(size) / static_cast<double>(vectors);
  double cost = 0;
  for (const Access& a : facts.accesses) {
    if ((a.path & AxisBit(axis)) == 0) continue;
    cost += Times(facts, a.path) * (lanes == 1 ? 1.0 : LoadsOf(facts, a, axis, lanes) / used);
  }
  for (AxisSet path : facts.alu)
    cost += (path & AxisBit(axis)) != 0 ? Times(facts, path) / used : 0.0;
  for (const Result& r : facts.results) {
    if (lanes > 1 && (r.over & AxisBit(axis)) != 0) {
      cost += Times(facts, r.path) * 3 * std::countr_zero(static_cast<uint64_t>(lanes));
    }
  }
  return lanes > 1 && Scatters(facts, axis) ? kScatterLoss * cost : cost;
}

bool LoadsByLane(const KernelFacts& facts, const Access& a, size_t axis) {
  return a.strides[axis] == 0 && !a.is_store && (a.gate_along & AxisBit(axis)) != 0;
}

bool Scatters(const KernelFacts& facts, size_t axis) {
  return facts.reduces != 0 && !facts.has_stages && !IsReduce(facts, axis) &&
         std::any_of(facts.accesses.begin(), facts.accesses.end(), [&](const Access& x) {
           return x.is_store && x.strides[axis].value_or(kRowBytes) > kSmallStride;
         });
}

double LoadsOf(const KernelFacts& facts, const Access& a, size_t axis, int64_t lanes) {
  const auto stride = a.strides[axis];
  if (LoadsByLane(facts, a, axis)) return kGatherCost * static_cast<double>(lanes);
  if (stride == 0 || stride == 1) return 1;
  const bool few = stride && *stride > 1 && *stride <= std::min(kSmallStride, lanes - 1);
  if (few && !a.is_store) return 2 * static_cast<double>(*stride) - 1;
  if (SquareAxis(facts, a, axis, lanes)) return 1 + std::countr_zero(static_cast<uint64_t>(lanes));
  const double gather = (a.is_store ? kScatterCost : kGatherCost) * static_cast<double>(lanes);
  // Packed once, then read as a vector. What it costs to scatter results counts by itself.
  return PacksLanes(facts, a, axis, lanes) ? 1 + gather / a.reuse : gather;
}

bool PacksLanes(const KernelFacts& facts, const Access& a, size_t axis, int64_t lanes) {
  constexpr double kLeast = kLeastReuse * kTileRows;
  if (a.reuse < kLeast || !IsStoredAlong(facts, axis)) return false;
  return !Scatters(facts, axis) ||
         (Executions(facts, a) >= kLeast && PanelVectors(facts, a, lanes) >= kLeastPanelVectors);
}

int64_t PanelVectors(const KernelFacts& facts, const Access& a, int64_t lanes) {
  const double panel =
      static_cast<double>(lanes * facts.widest) * Times(facts, a.path & facts.reduces);
  return static_cast<int64_t>(static_cast<double>(facts.target.private_bytes) / panel);
}

std::optional<size_t> SquareAxis(const KernelFacts& facts, const Access& x, size_t axis,
                                 int64_t lanes) {
  const auto stride = x.strides[axis];
  if (x.is_store || x.is_gated || facts.reduces != 0 || facts.has_stages || lanes < 4)
    return std::nullopt;
  if (!stride || std::abs(*stride) <= kSmallStride) return std::nullopt;
  for (size_t a = 0; a < facts.axes.size(); ++a) {
    if (x.strides[a] == 1 && facts.fixed[a] && facts.sizes[a] >= lanes) return a;
  }
  return std::nullopt;
}

}  // namespace uopd::codegen
