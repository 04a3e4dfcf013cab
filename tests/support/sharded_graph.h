// SPDX-License-Identifier: MIT
// ShardGraph: turns a graph on one device into an equivalent graph on several devices. Slots are
// cut into pieces of random sizes; intermediate values are cut differently or moved to one device.
#pragma once
#include <cstdint>
#include <vector>

#include "tests/support/graph_generator.h"

namespace uopd::test {

struct ShardedGraph {
  ir::UOp sink;
  std::vector<HostArray> slots;
  // By slot of the original graph: the slots of its pieces. axis -1: each piece is a whole copy.
  struct Split {
    int64_t axis = -1;
    std::vector<size_t> slots;
  };
  std::vector<Split> splits;
};

// The same seed gives the same graph, on devices CPU:0 to CPU:<devices - 1>. REQUIRES: g was
// generated without devices.
ShardedGraph ShardGraph(ir::UOpContext& ctx, const GeneratedGraph& g, uint64_t seed, int devices);

// The slots of the original graph g, joined from the slots of the sharded graph after a run. An
// error if copies of one slot differ in a visible element.
absl::StatusOr<std::vector<HostArray>> JoinSlots(const GeneratedGraph& g, const ShardedGraph& graph,
                                                 const std::vector<HostArray>& slots);

}  // namespace uopd::test
