// SPDX-License-Identifier: MIT
// A graph on one device as one on several: its slots in pieces of random sizes, values in the
// middle moved into other pieces or to one device. What it computes is the same.
#pragma once
#include <cstdint>
#include <vector>

#include "tests/support/graph_generator.h"

namespace uopd::testing {

struct ShardedGraph {
  ir::UOp sink;
  std::vector<HostArray> slots;
  // By slot of the original graph: its pieces. axis -1: each is the whole.
  struct Split {
    int64_t axis = -1;
    std::vector<size_t> slots;
  };
  std::vector<Split> splits;
};

// The same seed gives the same graph, on devices CPU:0 to CPU:<devices - 1>. REQUIRES: g was
// generated without devices.
ShardedGraph ShardGraph(ir::UOpContext& ctx, const GeneratedGraph& g, uint64_t seed, int devices);

// The slots of the original graph g after a run of the other; an error if copies of one slot differ
// in an element that is visible.
absl::StatusOr<std::vector<HostArray>> JoinSlots(const GeneratedGraph& g, const ShardedGraph& graph,
                                                 const std::vector<HostArray>& slots);

}  // namespace uopd::testing
