// SPDX-License-Identifier: MIT
// Follows the axes of a view down to the axes of what it is a view of.
#pragma once
#include <absl/container/inlined_vector.h>

#include "core/ir/context.h"
#include "core/ir/shape.h"

namespace uopd::schedule {

// For each axis of a node below a view: the axis of the top of the view that it becomes; -1:
// unknown, or none.
using AxisMap = absl::InlinedVector<int, 8>;

// The map of the source of u, which is an EXPAND, a RESHAPE or a PERMUTE with the given map.
// RESHAPE: an axis that it keeps whole has a counterpart. EXPAND: so has an axis of size 1 that it
// repeats. Other ops: the map as it is.
AxisMap MapBelow(ir::UOpContext& ctx, ir::UOp u, const AxisMap& map);

}  // namespace uopd::schedule
