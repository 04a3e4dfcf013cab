// SPDX-License-Identifier: MIT
// Reductions that pick elements: the sum over i of (i == x ? f(i) : 0) is f(x), with no loop over i
// (core/rules/collapse.h makes it so, once there are ranges). Fusion has to know before: an
// embedding is such a sum over the vocabulary, and weighs a load.
//
// Axes are counted from the last one, so that broadcasting leaves them as they are.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/ir/context.h"

namespace uopd::schedule {

class Picks {
 public:
  // `order` is the graph, sources first; positions below are into it.
  Picks(ir::UOpContext& ctx, std::span<const ir::UOp> order);

  // The reduction at `position` has no loop over `axis`, of `rank` axes of its source.
  bool Collapses(uint32_t position, size_t rank, int64_t axis) const {
    return !facts_.empty() && (facts_[position].collapses >> (rank - 1 - Index(axis)) & 1) != 0;
  }
  // The value is zero but at one place of some axis.
  bool Picking(uint32_t position) const { return !facts_.empty() && facts_[position].picks != 0; }
  // How many elements one element of the REDUCE u is really made of.
  double TermsOf(ir::UOpContext& ctx, uint32_t position, ir::UOp u) const;

 private:
  // Sets of axes.
  struct Facts {
    uint64_t varies = 0;     // along which the value may differ
    uint64_t counts = 0;     // along which it is the position plus a constant
    uint64_t shifted = 0;    // of those, where the constant is not known to be 0
    uint64_t picks = 0;      // along which it is zero but at one position
    uint64_t collapses = 0;  // REDUCE: axes of the source that need no loop
  };
  static size_t Index(int64_t axis) { return static_cast<size_t>(axis); }
  static void Carry(const Facts& from, uint64_t theirs, Facts& to, uint64_t mine);
  static Facts Elementwise(ir::UOp u, std::span<const Facts* const> from);
  static Facts Reshaped(ir::Shape out, ir::Shape in, const Facts& from);
  static Facts Moved(ir::UOp u, ir::Shape out, ir::Shape in, const Facts& from);

  std::vector<Facts> facts_;  // by position; empty where nothing counts
};

}  // namespace uopd::schedule
