// SPDX-License-Identifier: MIT
// Layouts: on which devices a tensor-level value is, and in which pieces.
//
// One rule per op says where its result is and how its sources have to lie for that. The scheduler
// computes by it (core/schedule/multi_device.h), clients choose the buffers of results by it; so
// neither moves what the other has just put somewhere.
//
// Devices are compared by name. A PARAM or BUFFER that names none is on `default_device`.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/ir/context.h"
#include "core/ir/shape.h"

namespace uopd::ir {

struct Layout {
  // One for each piece; none: the value can be computed anywhere. The texts live as long as the
  // context, or the caller's default device.
  std::vector<std::string_view> devices;
  int64_t axis = -1;  // along which the pieces follow each other; -1: each is the whole value
  Dims sizes;         // of the pieces along the axis; none is 0 unless it is the only one
  // It comes from a MULTI: where it is needed elsewhere it moves by itself. Other values move by
  // COPY alone.
  bool pieces = false;

  bool anywhere() const { return devices.empty(); }
  bool sharded() const { return axis >= 0; }
  bool operator==(const Layout&) const = default;
};

// Whole on each of the devices.
Layout Replicated(std::vector<std::string_view> devices);

struct LayoutRule {
  Layout result;                // of a STORE: of its target
  std::vector<Layout> sources;  // how every source has to lie; scalars of shapes: anywhere
};

// INVALID_ARGUMENT where sources on different devices meet without a MULTI, or pieces are in pieces
// themselves. REQUIRES: u passed VerifyNode at Stage::kTensor; `sources` are the layouts of its
// sources, in order.
absl::StatusOr<LayoutRule> RuleOf(UOpContext& ctx, UOp u, std::span<const Layout* const> sources,
                                  std::string_view default_device);

// The part of each piece that lies in [begin, begin + length) along the axis of a sharded layout.
struct Overlap {
  size_t piece;
  int64_t begin, length;  // within the piece; length > 0, unless nothing overlaps: then piece 0's
};
std::vector<Overlap> Overlaps(const Layout& layout, int64_t begin, int64_t length);

// n elements along an axis in `pieces` pieces whose sizes differ by at most one, larger ones first.
Dims EvenSizes(int64_t n, int64_t pieces);

}  // namespace uopd::ir
