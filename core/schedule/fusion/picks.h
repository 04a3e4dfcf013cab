// SPDX-License-Identifier: MIT
// Finds sums that pick single elements. The sum over i of (i == x ? f(i) : 0) is f(x), without a
// loop over i. The rules of core/rules/collapse.h remove the loop after lowering; fusion has to
// know it before, for its cost model: an embedding is such a sum over the vocabulary and costs one
// load.
//
// Runs before fusion. Facts are propagated from the sources upward, as sets of axes. The bits of a
// set count axes from the last one, so that broadcasting does not change them.
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

  // True if the reduction at `position` will have no loop over `axis` of its source, which has
  // `rank` axes.
  bool Collapses(uint32_t position, size_t rank, int64_t axis) const {
    return !facts_.empty() && (facts_[position].collapses >> (rank - 1 - Index(axis)) & 1) != 0;
  }
  // True if the value is zero except at one position along some axis.
  bool Picking(uint32_t position) const { return !facts_.empty() && facts_[position].picks != 0; }
  // The number of terms of one element of the REDUCE u, not counting axes that need no loop.
  double TermsOf(ir::UOpContext& ctx, uint32_t position, ir::UOp u) const;

 private:
  // Sets of axes of a value.
  struct Facts {
    uint64_t varies = 0;     // the value may differ along the axis
    uint64_t counts = 0;     // the value is the position along the axis plus a constant
    uint64_t shifted = 0;    // as `counts`, and the constant may not be 0
    uint64_t picks = 0;      // the value is zero except at one position along the axis
    uint64_t collapses = 0;  // REDUCE: axes of its source that need no loop
  };
  static size_t Index(int64_t axis) { return static_cast<size_t>(axis); }
  static void Carry(const Facts& from, uint64_t theirs, Facts& to, uint64_t mine);
  static Facts Elementwise(ir::UOp u, std::span<const Facts* const> from);
  static Facts Reshaped(ir::Shape out, ir::Shape in, const Facts& from);
  static Facts Moved(ir::UOp u, ir::Shape out, ir::Shape in, const Facts& from);

  std::vector<Facts> facts_;  // by position; empty if the graph has no IOTA
};

}  // namespace uopd::schedule
