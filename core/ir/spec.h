// SPDX-License-Identifier: MIT
// The verifier: what each op demands of its arity, arg, dtypes and shapes, at each stage of the
// pipeline.
//
// Anything from outside passes through here before another part of the system sees it; what passes
// cannot make shape inference, rewriting or codegen fail. Errors are INVALID_ARGUMENT and name the
// node.
#pragma once
#include "absl/container/inlined_vector.h"
#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::ir {

enum class Stage {
  kTensor,   // what clients send (admit.h): movement ops, no ranges
  kKernel,   // after scheduling: ranges, INDEX, LOAD and STORE
  kProgram,  // after codegen: what renderers get
  kAny,      // a node of any of them or from between them: what SPEC=2 checks new nodes against
  kClient,   // what becomes kTensor: the same, with BUFFERs for the client's memory
};

// Checks one node whose sources have been checked. Does not name the node.
absl::Status VerifyNode(UOpContext& ctx, UOp u, Stage stage);

// Checks every node under root. For kTensor the root is a SINK of STOREs into PARAMs, possibly
// through AFTER.
absl::Status Verify(UOpContext& ctx, UOp root, Stage stage);

// Verify at the border of a pass, where a graph that does not verify is our own bug: INTERNAL, with
// a frame that names the border. Does nothing below SPEC=1.
absl::Status VerifyBorder(UOpContext& ctx, UOp root, Stage stage, std::string_view border);

// What only a whole graph can break: roots, slots used with two different dtypes or shapes or far
// apart, variables with two ranges. `culprit` becomes the node to blame if it is not the root.
absl::Status VerifyRoot(UOpContext& ctx, UOp root, Stage stage, UOp* culprit = nullptr);

// Slots of a tensor graph are below this many and two for every PARAM: tables by slot cost no more
// than the graph itself.
inline constexpr int64_t kFreeSlots = 64;

// The PARAM or BUFFER that a STORE target or AFTER writes to, through movement ops; null if there
// is none. With a context the way is remembered: a chain of n AFTERs costs n steps in all.
UOp MaybeBaseOf(UOp target);
UOp MaybeBaseOf(UOpContext& ctx, UOp target);

// The PARAMs and BUFFERs that a STORE into `target` writes: one, or that of every piece of a MULTI;
// none if it is no storage.
absl::InlinedVector<UOp, 1> BasesOf(UOpContext& ctx, UOp target);

}  // namespace uopd::ir
