// SPDX-License-Identifier: MIT
// Unroll: removes UPCAST and UNROLL ranges. Every node that depends on such a range gets one copy
// per value of the range.
//
// Runs after LowerStages and before Vectorise. A closing op (END, REDUCE) joins the copies of its
// body.
#pragma once
#include "core/base/status.h"
#include "core/base/target/target.h"
#include "core/ir/context.h"

namespace uopd::codegen {

// UOp::tag of a node that combines two unrolled terms of a reduction: an ADD or MUL, or a WMMA, MMA
// or GROUP_PRODUCT whose third source is the sum of the terms before. Linearise may combine the
// terms with the accumulator one by one instead, and a product among the terms may be fused into a
// MULACC (not rounded).
inline constexpr int64_t kReduceChain = 1;

// Whether u is a RANGE that becomes copies.
bool IsUnrolled(ir::UOp u);

// How the unrolled terms of a reduction are combined: one after the other, or each with an
// accumulator of its own so that the additions do not wait for each other. `copies`: of the
// reduction itself, by unrolled ranges around it. `in_loop`: the reduction has loops besides its
// unrolled ranges and its lanes.
bool JoinsTermsInTurn(int64_t copies, bool in_loop, const Target& target);

// sink without UPCAST and UNROLL ranges. Equal copies are one node. RESOURCE_EXHAUSTED if the
// result would have too many nodes.
absl::StatusOr<ir::UOp> Unroll(ir::UOpContext& ctx, ir::UOp sink, const Target& target);

}  // namespace uopd::codegen
