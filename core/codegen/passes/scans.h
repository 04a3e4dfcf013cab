// SPDX-License-Identifier: MIT
// Running sums (SCAN) in vectors. Used by Vectorise.
//
// A running sum is kept in an accumulator, which Linearise creates: a SCAN with the tag kBefore is
// the value of the accumulator before the iteration adds its term, a SCAN without a tag the value
// after that. Sums and products of f32 are accumulated in f64 and rounded once for each result, so
// that the error does not grow with the number of terms.
#pragma once
#include <span>

#include "core/ir/context.h"

namespace uopd::codegen {

inline constexpr int64_t kBefore = 1;

// The running sum of x over the loops. The lanes of x, if it is a vector, have one sum each.
ir::UOp ScanOfLoops(ir::UOpContext& ctx, ir::Op op, ir::UOp x, std::span<const ir::UOp> loops);

// The running sum of the lanes of the vector x, over all iterations of the loops: log2(lanes) steps,
// then the sum of all vectors before. J. Sklansky, Conditional-sum addition logic, 1960.
ir::UOp ScanOfLanes(ir::UOpContext& ctx, ir::Op op, ir::UOp x, std::span<const ir::UOp> loops);

}  // namespace uopd::codegen
