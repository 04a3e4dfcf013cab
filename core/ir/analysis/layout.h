// SPDX-License-Identifier: MIT
// Layouts: which devices have a tensor-level value, and in which pieces.
//
// One rule per op gives the layout of its result and the layouts that its sources must have. The
// scheduler computes by these rules (core/schedule/multi/multi_device.h), and clients use them to
// choose the buffers of results, so that neither moves a value that the other has just placed.
//
// Devices are compared by name. A PARAM or BUFFER that names no device is on `default_device`.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/ir/context.h"
#include "core/ir/shape.h"

namespace uopd::ir {

struct Layout {
  // One for each piece; empty: the value needs no device. The texts live as long as the context, or
  // as the caller's default device.
  std::vector<std::string_view> devices;
  int64_t axis = -1;  // the axis that is divided into pieces; -1: each piece is the whole value
  Dims sizes;         // sizes of the pieces along the axis; 0 only if there is one piece
  // The value comes from a MULTI. The scheduler moves such values to other devices where they are
  // needed; other values move only by COPY.
  bool pieces = false;

  bool anywhere() const { return devices.empty(); }
  bool sharded() const { return axis >= 0; }
  bool operator==(const Layout&) const = default;
};

// The layout with the whole value on each of the devices.
Layout Replicated(std::vector<std::string_view> devices);

struct LayoutRule {
  Layout result;                // for a STORE: that of its target
  std::vector<Layout> sources;  // the required layout of every source; shapes need no device
};

// The rule of the op of u. INVALID_ARGUMENT if sources on different devices meet without a MULTI,
// or if a piece of a MULTI is in pieces itself. REQUIRES: u passed VerifyNode at Level::kTensor;
// `sources` are the layouts of its sources, in order.
absl::StatusOr<LayoutRule> RuleOf(UOpContext& ctx, UOp u, std::span<const Layout* const> sources,
                                  std::string_view default_device);

// The value in this layout: a MULTI of a COPY of a part, or of all of it, to each device. REQUIRES:
// there are devices; the sizes of a sharded layout are those of pieces of the value, whose size
// along the axis is a number.
UOp Divided(UOpContext& ctx, UOp value, const Layout& to);

// The parts of the pieces in [begin, begin + length) along the axis of a sharded layout. If no
// piece has such a part, the result is an empty part of piece 0.
struct Overlap {
  size_t piece;
  int64_t begin, length;  // within the piece
};
std::vector<Overlap> Overlaps(const Layout& layout, int64_t begin, int64_t length);

// The sizes of `pieces` pieces of n elements. They differ by at most one; larger ones come first.
Dims EvenSizes(int64_t n, int64_t pieces);

}  // namespace uopd::ir
