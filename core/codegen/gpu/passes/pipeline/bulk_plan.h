// SPDX-License-Identifier: MIT
// How a shared array that threads fill word by word is filled by BULK_COPYs instead
// (docs/ir_linear.md).
//
// The STOREs of all threads are looked at as what they are: pieces of 16 bytes, each with a place
// in the array and a place in a buffer. If the pieces of the array follow each other in swizzled
// spans, and the spans of so many rows lie equally far apart in the buffer, then these rows are a
// box of a matrix whose rows have that distance.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "core/base/target/tensor_map.h"
#include "core/ir/context.h"

namespace uopd::codegen {

struct BulkBox {
  int64_t to = 0;  // the word of the array that it begins at
  ir::UOp x, y;    // coordinates, of dtype index
};

struct BulkPlan {
  ir::UOp from;  // the PARAM
  TensorMap map;
  std::vector<BulkBox> boxes;

  int64_t bytes() const { return static_cast<int64_t>(boxes.size()) * map.box_bytes(); }
};

// `stores`: all STOREs to an array of u32 in one iteration of a loop, each of a LOAD of 16 bytes
// from a buffer, by threads numbered by `thread`, a SPECIAL of constant size. `span`: the bytes of
// a span, as the array's readers take it. Nothing if they are no whole boxes, if anything but the
// thread's number decides their gates, or if it cannot be proven that the boxes lie inside of the
// matrix.
std::optional<BulkPlan> MaybeBulkPlan(ir::UOpContext& ctx, std::span<const ir::UOp> stores,
                                      ir::UOp thread, int64_t span);

}  // namespace uopd::codegen
