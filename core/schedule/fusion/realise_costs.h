// SPDX-License-Identifier: MIT
// What it costs to compute a node wherever it is needed, and to write it to memory once. fusion.h
// says how the two are compared.
#pragma once
#include <span>

#include "core/schedule/fusion/fusion.h"

namespace uopd::schedule {

// Not thread-safe.
class RealiseCosts {
 public:
  // All arguments outlive the object. `picked`: ids of the ranges that picking sums lose (picks.h).
  RealiseCosts(ir::UOpContext& ctx, const Fusion& f, const absl::flat_hash_set<uint32_t>& picked,
               const FusionOptions& options)
      : ctx_(ctx), f_(f), picked_(picked), options_(options) {}

  // The loops that the evaluation of a demand cannot be hoisted out of: all down to the innermost
  // loop that its access uses.
  std::span<const ir::UOp> NeededLoops(const Demand& d) const;

  // How often a demand of u would compute it.
  double TripsOf(ir::UOp u, const Demand& d) const {
    return Trips(d, options_.picks->Picking(f_.position[u.id()]));
  }

  // How often all demands together would compute u; 0 if recomputing u costs nothing.
  double Trips(ir::UOp u) const;

  // The cost of a node that is written once and loaded in all trips.
  double OfRealising(const NodeInfo& info, double trips) const;

  // True if computing u would make its kernels too large: a kernel has code of its own for each
  // demand of a node that it computes, and for each op of an index.
  static bool IsCrowded(ir::UOp u, const NodeInfo& info);

  // Whether u is a large sum of products over its innermost axis and others, and something is
  // computed from it: the update of the weights of a convolution from their gradient. The vectors
  // of such a sum lie along the axes that it adds up. So what follows in its kernel would be
  // computed one element at a time. A kernel of its own computes that in vectors.
  bool EndsInLanes(ir::UOp u) const;

 private:
  // How often the demand is evaluated. `picks`: the node is zero except at one position of some
  // axis (picks.h), so that inside of a loop that a picking sum loses it disappears with the loop.
  double Trips(const Demand& d, bool picks) const;

  // Whether u converts loaded values that the device multiplies as they are: products then load
  // fewer bytes, and a matrix instruction converts on its own.
  bool ConvertsFactor(ir::UOp u) const;
  // Whether u rounds loaded values to what matrix instructions of warps multiply: a block of
  // threads copies a tile of them to shared memory, and rounds each once.
  bool RoundsFactor(ir::UOp u) const;

  // True for the steps by which small elements are taken out of words of 32 bits in memory
  // (kept/packed_operand.h): BITCAST(CAST(words >> shift)), and for bits of words.
  bool UnpacksWords(ir::UOp u) const;
  // Whether u is such words, fewer than `elements`, or bits of them: made by AND, OR and shifts.
  bool HasBitsOfWords(ir::UOp u, double elements, int depth) const;

  ir::UOpContext& ctx_;
  const Fusion& f_;
  const absl::flat_hash_set<uint32_t>& picked_;
  const FusionOptions& options_;
};

}  // namespace uopd::schedule
