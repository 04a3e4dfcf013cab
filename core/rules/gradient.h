// SPDX-License-Identifier: MIT
// Gradient: reverse-mode differentiation of tensor-level graphs, as graph rewriting.
//
// The walk goes from the loss to the targets in reverse topological order, without recursion; one
// small rule per op turns the gradient of a node into those of its sources. Broadcasting is undone
// by summing. Nothing is evaluated, and the result is a graph in the same context that shares the
// forward values it needs.
//
// Where the derivative is a choice:
//   MAX and REDUCE MAX   values that tie share the gradient equally.
//   TRUNC, comparisons, integers, casts to or from integers, BITCAST, DETACH   no gradient flows.
//   SQRT and LOG2 at 0, POW of a negative base   what IEEE arithmetic gives (inf or NaN); POW gives
//   the exponent 0 where the base is 0.
// Fails with INVALID_ARGUMENT for a loss or target that is no float and for a seed of another shape
// or dtype, UNIMPLEMENTED for ops of kernels.
#pragma once
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::rules {

// d(loss . seed_gradient) / d(target) for every target, in its shape and dtype; zeros where the
// loss does not depend on it. REQUIRES: the graphs of loss and seed passed VerifyNode at
// Stage::kTensor.
absl::StatusOr<std::vector<ir::UOp>> Gradient(ir::UOpContext& ctx, ir::UOp loss,
                                              ir::UOp seed_gradient,
                                              std::span<const ir::UOp> targets);

}  // namespace uopd::rules
