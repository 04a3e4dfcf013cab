// SPDX-License-Identifier: MIT
// Running sums (SCAN) in vectors. Used by Vectorise.
//
// A running sum is kept in an accumulator, which Linearise creates: a SCAN with the tag kBefore is
// the value of the accumulator before the iteration adds its term, a SCAN without a tag the value
// after that. A SCAN over a THREAD range (cpu/make/split_scan.h) always has the tag. Sums and
// products of f32 are accumulated in f64 and rounded once for each result, so that the error does
// not grow with the number of terms.
#pragma once
#include <span>

#include "core/ir/context.h"

namespace uopd::codegen {

inline constexpr int64_t kBefore = 1;

// The parts of a SCAN that codegen has made: its ranges, and the value that the first iteration
// combines its term with, which is its last source if that is no RANGE.
inline ir::UOp MaybeStartOf(ir::UOp scan) {
  return scan.srcs().back().Is(ir::Op::RANGE) || scan.n_src() == 1 ? ir::UOp() : scan.srcs().back();
}
inline std::span<const ir::UOp> RangesOf(ir::UOp scan) {
  return scan.srcs().subspan(1, scan.n_src() - (MaybeStartOf(scan) ? 2 : 1));
}

// The dtype in which running sums of values of dtype d are accumulated.
ir::Dtype AccumulatorOf(ir::Op op, ir::Dtype d);

// The running sum of x over the loops. The lanes of x, if it is a vector, have one sum each. The
// first sum includes `start`, a value of the dtype of the accumulator; null: the sums begin anew.
ir::UOp ScanOfLoops(ir::UOpContext& ctx, ir::Op op, ir::UOp x, std::span<const ir::UOp> loops,
                    ir::UOp start);

// The running sum of the lanes of the vector x, over all iterations of the loops: log2(lanes)
// steps, then the sum of all vectors before. J. Sklansky, Conditional-sum addition logic, 1960.
ir::UOp ScanOfLanes(ir::UOpContext& ctx, ir::Op op, ir::UOp x, std::span<const ir::UOp> loops,
                    ir::UOp start);

}  // namespace uopd::codegen
