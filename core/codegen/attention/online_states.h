// SPDX-License-Identifier: MIT
// OnlineStates: makes the states of a kernel with ONLINE, which tiles of keys change (online.h
// says how they look).
//
// The order of the calls for a state: New; Before and SetStage; and once all states have a stage,
// End and then After.
//
// Not thread-safe. The context must outlive it.
#pragma once
#include <span>
#include <vector>

#include "core/ir/graph.h"

namespace uopd::codegen {

struct OnlineState {
  ir::UOp buffer, stage;
  ir::Dtype dtype = ir::Dtype::Void;
  std::vector<ir::UOp> along;  // RANGEs of the kernel that number the elements
};

class OnlineStates {
 public:
  // `loop`: the RANGE over key tiles.
  OnlineStates(ir::UOpContext& ctx, ir::UOp loop);

  // Whether a mask shows any key of a tile; null: there is no such mask. Stages that are set
  // later have the condition.
  void SetShown(ir::UOp maybe_shown) { maybe_shown_ = maybe_shown; }
  // Whether this is not the first tile, in front of which states hold nothing.
  ir::UOp later() const { return later_; }

  OnlineState New(ir::Dtype dtype, std::vector<ir::UOp> along);
  // Where the element lies if `fresh` replaces the ranges.
  ir::UOp Place(const OnlineState& state, const ir::Substitution& fresh);
  // What the iteration before stored at the place.
  ir::UOp Before(const OnlineState& state, ir::UOp at);
  // Says what an iteration stores at the place, for all `ranges`.
  void SetStage(OnlineState& state, ir::UOp value, ir::UOp at, std::span<const ir::UOp> ranges);

  // Closes the loop over key tiles, which stores these stages in their order.
  void End(std::span<const ir::UOp> stages);
  // An element behind that loop.
  ir::UOp After(const OnlineState& state);

 private:
  ir::UOpContext& ctx_;
  const ir::UOp loop_, later_;
  ir::UOp maybe_shown_;
  ir::UOp end_;         // of the loop over key tiles
  int64_t states_ = 0;  // that were made
};

}  // namespace uopd::codegen
