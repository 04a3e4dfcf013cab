// SPDX-License-Identifier: MIT
// Where a loop can be divided so that an index uses only some of its parts. Used for loops over the
// output (staging.h) and for loops of reductions (reduce_cuts.h).
#pragma once
#include <optional>
#include <span>

#include "core/ir/uop.h"

namespace uopd::schedule {

// Cuts a loop into three: over multiples of `outer`, over multiples of `inner` below `outer`, and
// over the elements below `inner`. The indices that the cut was made for do not use the middle one.
struct RangeCut {
  ir::UOp range;
  int64_t inner = 1, outer = 1;
};

// The cut of a range that the indices use only in quotients and remainders by constants. Nullopt if
// they use the whole range, if its size is not constant, or if no cut fits all uses.
std::optional<RangeCut> MaybeCutOf(ir::UOp range, std::span<const ir::UOp> indices);

}  // namespace uopd::schedule
