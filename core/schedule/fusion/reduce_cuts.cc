// SPDX-License-Identifier: MIT
#include "core/schedule/fusion/reduce_cuts.h"

#include "core/ir/build.h"

namespace uopd::schedule {

using ir::AxisType;
using ir::UOp;

UOp ReduceCuts::MakeLoops(UOp reduce, int64_t axis, UOp size, uint32_t root,
                          std::vector<UOp>& ranges) {
  const auto loop = [&](UOp n) {
    ranges.push_back(ir::Range(ctx_, n, f_.roots[root].next_range++, AxisType::REDUCE));
    axis_of_[{root, ranges.back().id()}] = {reduce, axis};
    return ranges.back();
  };
  const auto& cuts = options_.constraints->reduce_cuts;
  const auto number = static_cast<uint32_t>(axis);
  const auto first = cuts.lower_bound({reduce.id(), number, 0}),
             end = cuts.lower_bound({reduce.id(), number + 1, 0});
  if (first == end) return loop(size);
  UOp at = ctx_.Idx(0);
  int64_t left = size.const_int();
  for (auto cut = end; cut != first;) {
    const int64_t stride = (--cut)->stride;
    at = ir::Add(ctx_, at, ir::Mul(ctx_, loop(ctx_.Idx(left / stride)), ctx_.Idx(stride)));
    left = stride;
  }
  return accesses_.Simple(ir::Add(ctx_, at, loop(ctx_.Idx(left))));
}

std::optional<AxisCut> ReduceCuts::MaybeCut(const Demand& d) const {
  const auto needed = costs_.NeededLoops(d);
  if (needed.empty() || !d.access->always()) return std::nullopt;
  // Only the innermost loop counts: with a loop inside that the demand needs whole, nothing is
  // gained.
  const UOp range = needed.back();
  const auto found = axis_of_.find({d.root, range.id()});
  if (found == axis_of_.end() || picked_.contains(range.id())) return std::nullopt;
  const auto cut = MaybeCutOf(range, d.access->index);
  if (!cut || cut->inner != 1) return std::nullopt;
  const auto& [reduce, axis] = found->second;
  // A loop that was cut already keeps its parts.
  const ir::Shape terms = *f_.at(reduce.src(0)).shape;
  if (terms[static_cast<size_t>(axis)] != range.src(0)) return std::nullopt;
  return AxisCut{reduce.id(), static_cast<uint32_t>(axis), cut->outer};
}

bool ReduceCuts::Want(UOp u) {
  const NodeInfo& info = f_.at(u);
  std::vector<AxisCut> wanted;
  double trips = 0;
  for (const Demand& d : info.demands) {
    const double whole = costs_.TripsOf(u, d);
    const auto cut = MaybeCut(d);
    trips += cut ? whole / static_cast<double>(cut->stride) : whole;
    if (cut) wanted.push_back(*cut);
  }
  if (wanted.empty() || trips * info.work > costs_.OfRealising(info, trips)) return false;
  f_.reduce_cuts.insert(f_.reduce_cuts.end(), wanted.begin(), wanted.end());
  return true;
}

}  // namespace uopd::schedule
