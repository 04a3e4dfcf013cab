// SPDX-License-Identifier: MIT
// Interval analysis of integer, index and bool scalars. UOpContext::BoundsOf is the entry; it
// memoises the results.
//
// Bounds are inclusive and hold for the value after wrapping, so a sum of i32 that may overflow has
// the bounds of i32. Index values do not wrap: their interval may exceed 64 bits here; Verify
// refuses such a node.
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

// Bounds of u, computed from those of its sources. Called by UOpContext::BoundsOf. REQUIRES: u is
// no constant.
Bounds ComputeBounds(UOpContext& ctx, UOp u);

}  // namespace uopd::ir
