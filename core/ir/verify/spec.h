// SPDX-License-Identifier: MIT
// The verifier: checks the number of sources, arg, dtypes and shapes of every node, by the rules of
// each level of the IR.
//
// Every graph from outside is verified before another part of the system uses it. A verified graph
// cannot make shape inference, rewriting or codegen fail. Errors are INVALID_ARGUMENT and name the
// node.
#pragma once
#include "absl/container/inlined_vector.h"
#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::ir {

// How far a graph is lowered: which ops it may have, and what they demand.
enum class Level {
  kTensor,  // what clients send (admit.h): movement ops, no ranges
  kKernel,  // after scheduling: ranges, INDEX, LOAD and STORE
  kLinear,  // after codegen: what renderers get
  kAny,     // any level, or between two of them: SPEC=2 checks new nodes against it
  kClient,  // as kTensor, with BUFFERs for the client's memory; before the graph is normalised
};

// Checks one node whose sources have been checked. Does not name the node.
absl::Status VerifyNode(UOpContext& ctx, UOp u, Level level);

// Checks every node under root. For kTensor the root is a SINK of STOREs into PARAMs, possibly
// through AFTER.
absl::Status Verify(UOpContext& ctx, UOp root, Level level);

// Verify between two passes. A graph that fails here is a bug of the daemon: INTERNAL, with a frame
// that names the border. Does nothing below SPEC=1.
absl::Status VerifyBorder(UOpContext& ctx, UOp root, Level level, std::string_view border);

// Checks the rules about a whole graph: its roots; that a slot has one dtype and shape, and is not
// too large a number; that a variable has one pair of bounds. `culprit` becomes the node that
// breaks a rule, if it is not the root.
absl::Status VerifyRoot(UOpContext& ctx, UOp root, Level level, UOp* culprit = nullptr);

// The slots of a tensor graph with n PARAMs are below kFreeSlots + 2 * n, so that tables by slot
// are not larger than the graph.
inline constexpr int64_t kFreeSlots = 64;

// The PARAM or BUFFER below the movement ops and AFTERs of `target`; null if there is none. With a
// context the result is memoised: all nodes of a chain of n AFTERs take n steps together.
UOp MaybeBaseOf(UOp target);
UOp MaybeBaseOf(UOpContext& ctx, UOp target);

// The PARAMs and BUFFERs that a STORE into `target` writes: one, or one for each piece of a MULTI;
// none if `target` is not a view of memory.
absl::InlinedVector<UOp, 1> BasesOf(UOpContext& ctx, UOp target);

}  // namespace uopd::ir
