// SPDX-License-Identifier: MIT
// Gradient: reverse-mode differentiation of tensor-level graphs, as graph rewriting.
//
// The walk goes from the loss to the targets in reverse topological order, without recursion; one
// small rule per op turns the gradient of a node into those of its sources. Broadcasting is undone
// by summing. Nothing is evaluated, and the result is a graph in the same context that shares the
// forward values it needs.
//
// Where the derivative is undefined or a matter of convention:
//   MAX and REDUCE MAX   values that tie share the gradient equally. A MAX whose tag is kTieFirst
//                        or kTieSecond gives all of it to that operand.
//   SCAN MAX             of values that tie the first one gets it.
//   TRUNC, comparisons, integers, casts to or from integers, BITCAST   no gradient flows.
//   DETACH               no gradient flows, or to the second source, which has the value's shape,
//                        times the third one. A DETACH with the tag kFixed is one with
//                        kUnknownSlope in the gradients that contain it, through which a gradient
//                        that has to flow is an error: of a formula that holds for first gradients
//                        only.
//   SQRT and LOG2 at 0, POW of a negative base   the result of IEEE arithmetic (inf or NaN).
//   POW with base 0   the gradient of the exponent is 0.
//
// A gradient is a graph like any other, so it has gradients itself. Those of products (REDUCE MUL,
// SCAN MUL) at zeros are those of the formula that was chosen there: second derivatives by two
// elements of which one is 0 are incomplete.
//
// INVALID_ARGUMENT if the loss or a target is not a float, or if the seed differs from the loss in
// shape or dtype. UNIMPLEMENTED if an op on the way has no rule, such as the ops of kernels, or is
// a DETACH with kUnknownSlope.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::rules {

// Tags of a MAX: the operand that has the gradient where both are equal. A clamp gives it to what
// it clamps, relu to its limit. Graphs that are sent have no tags.
enum Tie : int64_t { kTieFirst = 1, kTieSecond = 2 };
// Tag of a maximum in a gradient: the same value, and another node than that of the loss.
inline constexpr int64_t kComputedAnew = 5;
// Tags of a DETACH with one source.
enum Slope : int64_t { kFixed = 3, kUnknownSlope = 4 };

// d(loss . seed_gradient) / d(target) for every target, in the shape and dtype of the target; zeros
// if the loss does not depend on the target. The gradient of what was copied to another device is
// copied back; `default_device` is the home of buffers that name none (empty: unknown, and nothing
// is copied). REQUIRES: the graphs of loss and seed passed VerifyNode at Level::kTensor.
absl::StatusOr<std::vector<ir::UOp>> Gradient(ir::UOpContext& ctx, ir::UOp loss,
                                              ir::UOp seed_gradient,
                                              std::span<const ir::UOp> targets,
                                              std::string_view default_device = {});

}  // namespace uopd::rules
