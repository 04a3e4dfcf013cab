// SPDX-License-Identifier: MIT
// Values in pieces, and moving them from one layout to another.
#pragma once
#include <vector>

#include "core/ir/layout.h"

namespace uopd::schedule {

// One value: as many pieces as its layout has devices, or one that can be computed anywhere.
struct Pieces {
  ir::Layout layout;
  std::vector<ir::UOp> nodes;
};

// x, which is on device `from` (empty: anywhere), on device `to`.
ir::UOp OnDevice(ir::UOpContext& ctx, ir::UOp x, std::string_view from, std::string_view to);

// x without what is outside [begin, begin + length) along an axis.
ir::UOp Slice(ir::UOpContext& ctx, ir::UOp x, int64_t axis, int64_t begin, int64_t length);

// Parts on one device, one after the other along an axis. Every bit stays: -0 and NaN too.
ir::UOp Joined(ir::UOpContext& ctx, std::span<const ir::UOp> parts, int64_t axis);

// The same value in layout `to`. Only what a piece needs is copied to its device, and a value that
// is everywhere already is taken from where it is needed.
Pieces Reshard(ir::UOpContext& ctx, const Pieces& value, const ir::Layout& to);

}  // namespace uopd::schedule
