// SPDX-License-Identifier: MIT
// Interval analysis of integer, index and bool scalars.
//
// Bounds are inclusive and hold for the value after wrapping, so an i32 sum that may overflow has
// all of i32 as its bounds. Index values are exact: an interval that leaves 64 bits stays wide here
// and is refused by Verify.
#pragma once
#include "core/ir/dtype.h"
#include "core/ir/uop.h"

namespace uopd::ir {

class UOpContext;

struct Bounds {
  Int128 min = 1, max = 0;

  bool known() const { return min <= max; }
  bool IsPoint() const { return min == max; }
  bool Within(Bounds outer) const { return outer.min <= min && max <= outer.max; }
};

// Bounds of u, which is no constant, from those of its sources, which ctx has memoised or can
// compute. Called by UOpContext::BoundsOf.
Bounds ComputeBounds(UOpContext& ctx, UOp u);

}  // namespace uopd::ir
