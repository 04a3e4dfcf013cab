// SPDX-License-Identifier: MIT
// The rules of GROUP_PRODUCT, GROUP_MMA and the lines around them (docs/ir_linear.md).
#pragma once
#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::ir {

// INVALID_ARGUMENT for dtypes or numbers that the op does not take. REQUIRES: u has as many sources as its op takes.
absl::Status VerifyGroupProduct(UOp u);
absl::Status VerifyGroupMma(UOp u);
// Of an MMA_BEGIN or MMA_WAIT.
absl::Status VerifyAccumulators(UOp u);

// INVALID_ARGUMENT if the lines of a LINEAR with GROUP_MMAs are in a wrong order:
//   - an accumulator is loaded or stored while a GROUP_MMA may still change it, also when the kernel ends;
//   - a GROUP_MMA changes an accumulator without an MMA_BEGIN after what was stored there before;
//   - a GROUP_MMA reads an array that threads stored to, or waited for copies to, without a SHARED_FENCE and then a
//     BARRIER in between.
// `maybe_culprit`: the line. Loops are walked twice, so that an iteration meets the next one.
absl::Status VerifyGroupOrder(UOp linear, UOp* maybe_culprit);

}  // namespace uopd::ir
