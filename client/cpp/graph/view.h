// SPDX-License-Identifier: MIT
// View: how a tensor was made of another one by a movement operation, so that an assignment to it
// reaches that one. Internal to the library.
//
// The model of aliasing. A tensor is a value: what is computed from it sees the value that it had
// then. An assignment to a view changes the view and everything that it is a view of, at those
// elements; other tensors that were made from these before keep what they saw. A tensor that is
// gone is passed over: its elements are found in what it was a view of. RESHAPE, PERMUTE, FLIP,
// SHRINK, BITCAST to a dtype of the same size and DETACH make views. EXPAND and PAD do not: an
// element of theirs is several elements, or none.
#pragma once
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "core/ir/context.h"
#include "core/ir/graph.h"
#include "core/ir/shape.h"

namespace uopd::client {

struct TensorState;

// A tensor's place among views. Every live tensor is in the list of the live tensor that it is a
// view of, if there is one.
struct View {
  TensorState* of = nullptr;  // null: it is no view
  // The movement ops and BITCASTs from the tensor to `of`, the last one first. Their first sources
  // say nothing: the same movements are applied to later values.
  absl::InlinedVector<ir::UOp, 3> steps;
  // Assignments to the tensor do not reach `of`. A recorded function assigns to its arguments,
  // whatever they are views of.
  bool paused = false;
  TensorState* first = nullptr;                      // of the tensor's own views
  TensorState *next = nullptr, *previous = nullptr;  // the other views of `of`
};

// Makes a new tensor a view of another one. Without a step, or with a DETACH, the view is the whole
// tensor.
void BeginView(TensorState& t, TensorState& of, ir::UOp step);
// The tensor is no view any more. Its own views stay its views.
void LeaveView(TensorState& t);
// The tensor is about to be gone: its views become views of what it is a view of.
void EndView(TensorState& t);

// True if each of the two is all of the other one, or both are all of a third one: a value of the
// one is that of the other.
bool IsWhole(const TensorState& a, const TensorState& b);

// True if a node with this op is a view of its first source.
bool MakesView(ir::UOp u);

// The value of `whole` after `value` was assigned to the part that `steps` lead to, from the part
// to the whole. Written: an AFTER with a STORE if the whole is stored and the part can be written
// in place, else as Updated. Updated: a new value.
ir::UOp Written(ir::UOpContext& ctx, ir::UOp whole, std::span<const ir::UOp> steps, ir::UOp value);
ir::UOp Updated(ir::UOpContext& ctx, ir::UOp whole, std::span<const ir::UOp> steps, ir::UOp value);
// The part of `whole` that the steps lead to.
ir::UOp PartOf(ir::UOpContext& ctx, ir::UOp whole, std::span<const ir::UOp> steps);
// The steps of an AFTER's STORE, from the part to the whole. `other`: what their sources but the
// first become.
template <typename F>
std::vector<ir::UOp> StepsOf(ir::UOpContext& ctx, ir::UOp after, F other) {
  std::vector<ir::UOp> out;
  for (ir::UOp u = after.src(1).src(0); u != after.src(0); u = u.src(0)) {
    ir::SymbolicDims srcs = {u.src(0)};
    for (ir::UOp s : u.srcs().subspan(1)) srcs.push_back(other(s));
    out.push_back(ctx.WithSources(u, srcs));
  }
  return out;
}
// Replaces nodes as ir::Substitute does. Where a STORE of an AFTER writes is a place and no value:
// it stays the same part of what the AFTER is a state of, even if that part is replaced where it is
// a value. An AFTER of what is not stored any more becomes a new value.
ir::UOp ReplaceValues(ir::UOpContext& ctx, ir::UOp root, const ir::Substitution& map);
// The stored value that an AFTER is a state of.
ir::UOp StoredBelow(ir::UOp after);

// A step in another context, without the value that it was applied to.
ir::UOp StepIn(ir::UOpContext& to, ir::UOp step, ir::UOpContext& from,
               absl::flat_hash_map<uint32_t, ir::UOp>& map);

}  // namespace uopd::client
