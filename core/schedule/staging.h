// SPDX-License-Identifier: MIT
// Values that a kernel computes into memory of its own: between computing a value at every demand
// and writing it to global memory.
//
// A node u can be *staged* in a root if all of its demands are of that root and agree about some of
// its axes: along those, every demand's index is the same and uses only loops that are around all
// demands. Then each iteration of these loops computes u once along its other axes, the staged
// ones, over ranges of its own, into an array (STAGE), and the demands load from that. So attention
// is one kernel: a row of scores, a row of their exponentials and a row of probabilities are
// staged for every query.
//
//   prefix    loops down to the innermost that the agreed indices use
//   computed  elements: the iterations of the prefix times the sizes of the staged axes
//
// Cost model, in the units of fusion.h. Staging u costs
//
//   computed * (work + kStageWork) + trips * load + lost threads + lost tiles
//
// against trips * work for computing it at each demand; trips of reductions whose loops will be
// shared (share_ranges.h) count once. There is no launch and no traffic. What is lost:
//
//   threads   split the loops of the prefix, and nothing else. A kernel that has fewer
//             iterations of them than threads takes longer by as much.
//   tiles     A product of matrices loads an operand once for a tile of rows. If the rows are loops
//             of the prefix, the operand that they share is read for each of them again; where all
//             of it stays in a cache, that costs little.
//
// Output loops can be in any order, so those that the agreed indices do not use are put inside of
// those that they use. A loop over an axis that a reshape has merged from several is cut where the
// agreed indices use a part of it, r / n and r % m: so attention whose heads are put side by side
// has loops over heads and over depth. Cutting needs another attempt to fuse the graph.
//
// Gates: the array is filled whole, so the agreed indices must be inside of their axes in every
// iteration; loads may be gated.
#pragma once
#include <absl/container/inlined_vector.h>

#include <optional>
#include <vector>

#include "core/schedule/fusion.h"
#include "core/schedule/used_ranges.h"

namespace uopd::schedule {

// A loop `range` over the output that is three, of which the agreed indices do not use the one in
// the middle: multiples of `inner` up to `outer`.
struct RangeCut {
  ir::UOp range;
  int64_t inner = 1, outer = 1;
};

// Loops, outermost first. Inline, since plans are made and dropped often.
using LoopList = absl::InlinedVector<ir::UOp, 8>;

// How a node would be staged.
struct StagePlan {
  absl::InlinedVector<size_t, 6> axes;  // staged, ascending
  LoopList loops;                       // the prefix
  int64_t elements = 0;                 // of the array
  int64_t bytes = 0;                    // of it
  double cached_bytes = 0;              // read again by every iteration of the prefix
  double cost = 0;
  // That must be made first: `loops` are then the parts that are used.
  std::vector<RangeCut> cuts;
};

class Staging {
 public:
  // All must outlive it. `picked`: ids of ranges that will be no loops.
  Staging(ir::UOpContext& ctx, const Fusion& fusion, const absl::flat_hash_set<uint32_t>& picked,
          const FusionOptions& options)
      : ctx_(ctx), f_(fusion), picked_(picked), options_(options) {}

  // f.loops.back() are the loops in which the REDUCE u takes its terms.
  void NoteReduce(ir::UOp u);

  // The cheapest way to stage u, if there is one that is cheaper than to compute it at each demand.
  // `trips`: how often that would be. `may_cut`: loops may be cut for it. REQUIRES: all demands of
  // u are known.
  std::optional<StagePlan> Plan(ir::UOp u, double trips, bool may_cut);

 private:
  struct Operand {
    uint64_t varies = 0;  // axes of the product
    int64_t bytes = 0;    // of an element
  };

  double Size(ir::UOp range) { return static_cast<double>(ctx_.BoundsOf(range.src(0)).max); }
  // Of the part of a loop of the plan that is used.
  double UsedSize(const StagePlan& plan, ir::UOp range);
  std::optional<RangeCut> MaybeCutOf(ir::UOp range, std::span<const ir::UOp> indices) const;
  bool UsesAPart(const Demand& d) const;
  ir::UOp MaybeReduceOf(const Demand& d) const;
  bool IsInside(ir::UOp index, ir::UOp size);
  bool Shares(ir::UOp u, const Demand& a, const Demand& b);
  double SharedTrips(ir::UOp u);
  LoopList CommonLoops(const NodeInfo& info) const;
  std::optional<StagePlan> Cut(ir::UOp u, LoopList& loops, bool may_cut, double& computed);
  absl::InlinedVector<Operand, 2> OperandsOf(ir::UOp reduce);
  double ReusedBytes(const Root& root) const;
  double LostThreads(const Root& root, double iterations) const;
  double LostByConsumers(ir::UOp u, StagePlan& plan);
  double LostBelow(ir::UOp u, const Root& root, StagePlan& plan);
  uint32_t Depth(ir::UOp u);

  ir::UOpContext& ctx_;
  const Fusion& f_;
  UsedRanges used_;
  const absl::flat_hash_set<uint32_t>& picked_;
  const FusionOptions& options_;
  std::vector<ir::UOp> reduce_of_;  // by number of loops: the REDUCE that made them, or null
  std::vector<uint32_t> depth_;     // by position, 0: not yet
};

}  // namespace uopd::schedule
