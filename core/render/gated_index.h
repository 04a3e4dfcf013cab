// SPDX-License-Identifier: MIT
// The index of a load under a gate, in two parts: what stays while the gate stays, and what changes in
// loops inside of those that the gate depends on. Whoever renders such a load can choose between the
// buffer and zeros by the gate first, and add the second part after that: a compiler then moves the
// choice out of the inner loops.
#pragma once
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/context.h"

namespace uopd::render {

// `steps` change in inner loops and are at least 0; `starts` do not. The index is the sum of all and of
// `offset`.
struct GatedIndex {
  std::vector<ir::UOp> starts, steps;
  int64_t offset = 0, most = 0;  // most: the largest sum of the steps
};

// Knows the loops that are open. Not thread-safe. The context must outlive it.
class GatedIndices {
 public:
  explicit GatedIndices(ir::UOpContext& ctx) : ctx_(ctx) {}

  void Open(ir::UOp range) { open_.push_back(range); }
  void Close() { open_.pop_back(); }

  // The parts of an INDEX that has a gate. The steps together stay below `limit`; larger ones are
  // among the starts.
  GatedIndex PartsOf(ir::UOp index, int64_t limit);

 private:
  // The number of the innermost open loop that the value depends on; 0: none.
  int64_t DepthOf(ir::UOp u);

  ir::UOpContext& ctx_;
  std::vector<ir::UOp> open_;                      // outermost first
  absl::flat_hash_map<uint32_t, int64_t> depths_;  // by node id
};

}  // namespace uopd::render
