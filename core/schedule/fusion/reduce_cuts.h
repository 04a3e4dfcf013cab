// SPDX-License-Identifier: MIT
// Loops of reductions that are cut, so that what changes only from one block of terms to the next
// is computed once for each block.
//
// Example: the weights of a product are kept as blocks of 32 small integers with a scale. The
// product sums up k terms, and uses the scale at k // 32. In one loop over k the scale would be
// computed for every term, so it would be written to memory before by another kernel. With a loop
// over the blocks and one over the 32 terms of a block it is computed between the two.
#pragma once
#include <vector>

#include "core/schedule/fusion/range_cut.h"
#include "core/schedule/fusion/realise_costs.h"

namespace uopd::schedule {

// Not thread-safe.
class ReduceCuts {
 public:
  // All arguments outlive the object. `picked`: ids of the ranges that picking sums lose (picks.h).
  ReduceCuts(ir::UOpContext& ctx, Accesses& accesses, Fusion& f,
             const absl::flat_hash_set<uint32_t>& picked, const FusionOptions& options,
             const RealiseCosts& costs)
      : ctx_(ctx), accesses_(accesses), f_(f), picked_(picked), options_(options), costs_(costs) {}

  // The position along a reduced axis in the loops that a demand of `reduce` by this root has. Adds
  // the loops to `ranges`, the outermost first: one, or several if a constraint cuts it.
  ir::UOp MakeLoops(ir::UOp reduce, int64_t axis, ir::UOp size, uint32_t root,
                    std::vector<ir::UOp>& ranges);

  // Whether u, which costs less if it is realised, would cost less still where it is needed if
  // loops of reductions were cut. Records the cuts for the next attempt.
  bool Want(ir::UOp u);

 private:
  // The cut with which the demand would be computed once for each block of terms.
  std::optional<AxisCut> MaybeCut(const Demand& d) const;

  struct Axis {
    ir::UOp reduce;
    int64_t axis = 0;
  };

  ir::UOpContext& ctx_;
  Accesses& accesses_;
  Fusion& f_;
  const absl::flat_hash_set<uint32_t>& picked_;
  const FusionOptions& options_;
  const RealiseCosts& costs_;
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, Axis> axis_of_;  // by root and id of the range
};

}  // namespace uopd::schedule
