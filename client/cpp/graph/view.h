// SPDX-License-Identifier: MIT
// View: how a tensor was made of another one by a movement operation, so that an assignment to it reaches that one.
// Internal to the library.
//
// The model of aliasing. A tensor is a value: what is computed from it sees the value that it had then. An
// assignment to a view changes the view and everything that it is a view of, at those elements; other tensors that were
// made from these before keep what they saw. A tensor that is gone is passed over: its elements are found in what it was
// a view of. RESHAPE, PERMUTE, FLIP, SHRINK, BITCAST to a dtype of the same size and DETACH make views. EXPAND and PAD do not: an element of
// theirs is several elements, or none.
#pragma once
#include <memory>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "core/ir/context.h"

namespace uopd::client {

struct TensorState;

struct View {
  std::weak_ptr<TensorState> of;
  // How `of` was made; null: it is no view.
  std::shared_ptr<View> above;
  // The movement op, or the BITCAST. Its first source says nothing: the same movement is applied to later values. Null: none, the view is
  // the whole tensor.
  ir::UOp step;
};

// True if a node with this op is a view of its first source.
bool MakesView(ir::UOp u);

// The value of `whole` after `value` was assigned to the part that `steps` lead to, from the part to the whole. Written: an
// AFTER with a STORE if the whole is stored and the part can be written in place, else as Updated. Updated: a new value.
ir::UOp Written(ir::UOpContext& ctx, ir::UOp whole, std::span<const ir::UOp> steps, ir::UOp value);
ir::UOp Updated(ir::UOpContext& ctx, ir::UOp whole, std::span<const ir::UOp> steps, ir::UOp value);
// The stored value that an AFTER is a state of.
ir::UOp StoredBelow(ir::UOp after);

// Copies the steps to another context, without the values that they were applied to.
void MoveTo(View& view, ir::UOpContext& from, ir::UOpContext& to,
            absl::flat_hash_map<uint32_t, ir::UOp>& map);

}  // namespace uopd::client
