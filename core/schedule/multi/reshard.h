// SPDX-License-Identifier: MIT
// Values in pieces, and how to move them from one layout (core/ir/analysis/layout.h) to another.
// Part of the first step of scheduling (multi_device.h).
#pragma once
#include <vector>

#include "core/ir/analysis/layout.h"

namespace uopd::schedule {

// One value: one piece for each device of its layout, or a single node that needs no device.
struct Pieces {
  ir::Layout layout;
  std::vector<ir::UOp> nodes;
};

// x on device `to`: a COPY, or x itself if `from`, the device of x, is `to` or empty (no device
// needed).
ir::UOp OnDevice(ir::UOpContext& ctx, ir::UOp x, std::string_view from, std::string_view to);

// The elements [begin, begin + length) of x along an axis.
ir::UOp Slice(ir::UOpContext& ctx, ir::UOp x, int64_t axis, int64_t begin, int64_t length);

// The concatenation of parts on one device along an axis. Elements keep all their bits, also -0 and
// NaN.
ir::UOp Joined(ir::UOpContext& ctx, std::span<const ir::UOp> parts, int64_t axis);

// The same value in layout `to`. To each device, only the elements of its piece are copied; nothing
// is copied if the device has a whole copy of the value.
Pieces Reshard(ir::UOpContext& ctx, const Pieces& value, const ir::Layout& to);

}  // namespace uopd::schedule
