// SPDX-License-Identifier: MIT
// Staging: keeps a value in an array inside of its kernel (STAGE). It is the third way beside
// computing the value at every demand and writing it to global memory. Part of fusion (fusion.h),
// which asks for a plan for every node that it visits.
//
// A node u can be staged in a root if all of its demands belong to that root and agree about some
// axes of u. They agree about an axis if their indices along it are equal and use only loops that
// are around all demands. Each iteration of these loops then computes u once: along the other axes,
// the staged ones, with ranges of its own, into an array. The demands load from the array.
// Attention is one kernel this way: for every query it stages a row of scores, of their
// exponentials and of probabilities.
//
//   prefix    the loops around the array: down to the innermost loop that the agreed indices use
//   computed  the number of elements that are computed: the iterations of the prefix times the
//             sizes of the staged axes
//
// Cost model, in the units of fusion.h. Staging u costs
//
//   computed * (work + kStageWork) + trips * load + lost threads + lost tiles
//
// against trips * work for computing u at each demand. Trips of reductions that will share their
// loops (ShareRanges) count once. Staging costs no launch and no traffic to memory. It may lose:
//
//   threads   Only the loops of the prefix are split among threads. If they have fewer iterations
//             than there are threads, the kernel takes longer in proportion. A layer for one row
//             is not staged for the next one, because a single thread would read its weights.
//   tiles     A matrix product loads an operand once for a tile of several rows. If the rows are
//             loops of the prefix, the operand that the rows have in common is loaded for each row.
//             That costs little if the whole operand stays in the cache.
//
// Loops over the output may be in any order, so those that the agreed indices do not use are put
// inside of the others. An axis that a reshape has merged from several axes is one loop r. If the
// agreed indices use only r / n or r % m, the loop is cut into several, and the graph is fused
// again: attention whose heads are stored side by side then has loops over heads and over depth.
//
// Invariant: the array is filled without a gate, so the agreed indices are in range in every
// iteration. The loads may be gated.
#pragma once
#include <absl/container/inlined_vector.h>

#include <optional>
#include <vector>

#include "core/schedule/fusion/fusion.h"
#include "core/schedule/fusion/range_cut.h"
#include "core/schedule/fusion/used_ranges.h"

namespace uopd::schedule {

// Loops, outermost first. Inlined, because plans are made and dropped often.
using LoopList = absl::InlinedVector<ir::UOp, 8>;

// How a node would be staged.
struct StagePlan {
  absl::InlinedVector<size_t, 6> axes;  // staged, ascending
  LoopList loops;                       // the prefix
  int64_t elements = 0;                 // of the array
  int64_t bytes = 0;                    // of the array
  double cached_bytes = 0;  // bytes of operands that every iteration of the prefix reads again
  double cost = 0;          // by the cost model above
  // Cuts that must be made before the plan is possible. `loops` has the uncut loops then; of each,
  // only the outer and the inner part belong to the prefix.
  std::vector<RangeCut> cuts;
};

class Staging {
 public:
  // The arguments must outlive this object. `picked`: ids of ranges that will be no loops
  // (picks.h).
  Staging(ir::UOpContext& ctx, const Fusion& fusion, const absl::flat_hash_set<uint32_t>& picked,
          const FusionOptions& options)
      : ctx_(ctx), f_(fusion), picked_(picked), options_(options) {}

  // Records that fusion.loops.back() are the loops around the terms of the REDUCE u.
  void NoteReduce(ir::UOp u);

  // The cheapest way to stage u, or nullopt if computing u at each demand is cheaper. `trips`: how
  // often the demands together would compute u. `may_cut`: the plan may have cuts. REQUIRES: all
  // demands of u are known.
  std::optional<StagePlan> Plan(ir::UOp u, double trips, bool may_cut);

 private:
  // A factor of a product that is summed.
  struct Operand {
    uint64_t varies = 0;  // bits of the axes of the product along which the factor is not broadcast
    int64_t bytes = 0;    // of one element
  };

  double Size(ir::UOp range) { return static_cast<double>(ctx_.BoundsOf(range.src(0)).max); }
  // Whether codegen keeps no array for a row of u (FusionOptions::online_rows).
  bool IsOnlineRow(ir::UOp u) const;
  // Of the array of u. REQUIRES: u has demands.
  int64_t MostBytes(ir::UOp u) const;
  // The size of a loop of the plan, without the middle part if the plan cuts it.
  double UsedSize(const StagePlan& plan, ir::UOp range);
  static std::optional<RangeCut> MaybeOutputCut(ir::UOp range, std::span<const ir::UOp> indices);
  bool UsesAPart(const Demand& d) const;
  // The REDUCE whose terms have the loops of the demand; null if there is none.
  ir::UOp MaybeReduceOf(const Demand& d) const;
  bool IsInside(ir::UOp index, ir::UOp size);
  bool Shares(ir::UOp u, const Demand& a, const Demand& b);
  double SharedTrips(ir::UOp u);
  LoopList CommonLoops(const NodeInfo& info) const;
  std::optional<StagePlan> Cut(ir::UOp u, LoopList& loops, bool may_cut, double& computed);
  absl::InlinedVector<Operand, 2> OperandsOf(ir::UOp reduce);
  double ReusedBytes(const Root& root) const;
  double LostThreads(const Root& root, double iterations, double array) const;
  double LostByConsumers(ir::UOp u, StagePlan& plan);
  double LostBelow(ir::UOp u, const Root& root, StagePlan& plan);
  uint32_t Depth(ir::UOp u);

  ir::UOpContext& ctx_;
  const Fusion& f_;
  UsedRanges used_;
  const absl::flat_hash_set<uint32_t>& picked_;
  const FusionOptions& options_;
  std::vector<ir::UOp> reduce_of_;  // by index into Fusion::loops, see MaybeReduceOf
  std::vector<uint32_t> depth_;     // by position, see Depth; empty until it is needed
};

}  // namespace uopd::schedule
