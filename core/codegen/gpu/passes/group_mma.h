// SPDX-License-Identifier: MIT
// MakeGroupMmas: gives the products of groups of warps their accumulators.
//
// A GROUP_PRODUCT is a value. The instruction works on while the threads go on, and changes
// registers in place. So
//
//   s = LOAD accumulator                      MMA_BEGIN accumulator
//   s = GROUP_PRODUCT a, b, s                 GROUP_MMA accumulator, a, b
//   s = GROUP_PRODUCT c, d, s       becomes   GROUP_MMA accumulator, c, d
//   STORE accumulator, s                      MMA_COMMIT
//                                             MMA_WAIT 0 accumulator
//
// Products between two ends of loops are one batch, as long as no line uses one of them. A product
// that no accumulator of a reduction holds gets an array of registers of its own, which is 0
// before.
#pragma once
#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::codegen {

// `linear` before its indices are lowered (linearise.h). The same if it has no GROUP_PRODUCT.
absl::StatusOr<ir::UOp> MakeGroupMmas(ir::UOpContext& ctx, ir::UOp linear);

}  // namespace uopd::codegen
