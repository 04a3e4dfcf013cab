// SPDX-License-Identifier: MIT
// Two axes in place of one, in the whole computation of a value and not only at its end.
#pragma once
#include <map>
#include <utility>

#include "core/ir/context.h"
#include "core/ir/shape.h"

namespace uopd::schedule {

// Computes values with one axis of `size` elements as two: (outer, inner). The last elements of the two are padding where
// outer * inner > size; their values are unspecified. A RESHAPE at the end would have the same elements, but the loops over what it is
// computed from would be over the one axis: what is computed for one element of `outer` could not be kept in an array of its own
// (fusion/staging.h). So the RESHAPE goes down to what the value is computed from: through elementwise ops, reductions of other
// axes and views that keep the axis whole.
class AxisSplitter {
 public:
  AxisSplitter(ir::UOpContext& ctx, int64_t size, int64_t outer, int64_t inner)
      : ctx_(ctx), size_(size), outer_(outer), inner_(inner) {}

  // x with axis `axis`, whose size is `size`, as two.
  ir::UOp Split(ir::UOp x, size_t axis);

 private:
  ir::UOp Made(ir::UOp x, size_t axis);
  ir::UOp AtEnd(ir::UOp x, size_t axis);
  ir::UOp Position(ir::UOp x, size_t axis);
  ir::UOp SourceOf(ir::UOp x, size_t i, size_t axis);
  ir::SymbolicDims DimsOf(ir::UOp x, size_t axis);

  ir::UOpContext& ctx_;
  const int64_t size_, outer_, inner_;
  std::map<std::pair<uint32_t, size_t>, ir::UOp> done_;  // by id and axis
};

}  // namespace uopd::schedule
