// SPDX-License-Identifier: MIT
// SafeSizes: boxes of a normalised graph that stay within their tensors whatever values the
// variables have. Internal to the library.
//
// A client knows the values of its variables, and refuses a box that leaves its tensor with these.
// A daemon proves every box for all values. So a box that only the values make fit is written in
// another form, which gives the same for values with which it fits: what is read beyond the tensor
// is 0, and what would be written there is written nowhere, or within. The boxes are noted, so that
// a replay with other values can refuse them.
#pragma once
#include <span>
#include <vector>

#include "core/ir/context.h"

namespace uopd::client {

// 0 <= start and 0 <= size and start + size <= whole.
struct SizeCondition {
  ir::UOp start, size, whole;
};

class SafeSizes {
 public:
  explicit SafeSizes(ir::UOpContext& ctx) : ctx_(ctx) {}

  // A shape whose sizes are not negative.
  ir::UOp Shape(ir::UOp shape);
  // SHRINK and PAD of x, with shapes of Shape().
  ir::UOp Shrink(ir::UOp x, ir::UOp starts, ir::UOp shape);
  ir::UOp Pad(ir::UOp x, ir::UOp before, ir::UOp shape);
  // SHRINK of what is stored into: a box that would leave it is moved. REQUIRES: CanMove.
  ir::UOp Moved(ir::UOp x, ir::UOp starts, ir::UOp shape);
  // True if this SHRINK fits for all values.
  bool Fits(ir::UOp shrink);
  // True if every box has room in the shape of x, wherever it begins.
  bool CanMove(ir::UOp x, ir::UOp shape);

  // Notes that this size must not be negative.
  void NoteSize(ir::UOp size) { Note(size, ctx_.Idx(0), size); }

  const std::vector<SizeCondition>& conditions() const { return conditions_; }

 private:
  bool IsNatural(ir::UOp size);
  // `size` or `least`, the larger one.
  ir::UOp AtLeast(ir::UOp size, ir::UOp least);
  void Note(ir::UOp start, ir::UOp size, ir::UOp whole);

  ir::UOpContext& ctx_;
  std::vector<SizeCondition> conditions_;
};

}  // namespace uopd::client
