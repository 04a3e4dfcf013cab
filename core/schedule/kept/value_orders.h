// SPDX-License-Identifier: MIT
// The order of the elements of intermediate values.
//
// No client sees an intermediate value, so its order in memory is free. A value that sums of
// products are written to is stored with the vectorised axis of the product innermost: channels
// innermost between convolutions. A value that a packed product reads is stored with the axes that
// only the sum runs over innermost.
//
// A value that products read rounded (RoundProducts) is stored rounded, in the same order, by the
// kernel that computes it. What else reads the value, such as a residual connection, reads the
// value itself, which is then stored too.
//
// A sum of floats that is no product adds up in the order of memory. If only such a sum reads a
// value, the value keeps the order of its axes, and the sum adds up as in the undivided graph.
//
// A value that joins two products (a residual connection with a convolution on both sides) would
// need two nests of loops in one kernel. The smaller product is stored instead.
#pragma once
#include <map>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/schedule/kept/packed_operand.h"
#include "core/schedule/kept/stability.h"

namespace uopd::schedule {

// A product with a packed operand; `vector` is the axis of the product that the operand is
// vectorised along.
struct PackedProduct {
  Product product;
  size_t vector = 0;
  bool packs_a = false;
};

// Values to store, each with the PERMUTE that gives the order of its elements, by node id.
using ValueOrders = absl::flat_hash_map<uint32_t, std::vector<int64_t>>;

// `order`: the graph, sources first. `products`: by id of the REDUCE.
ValueOrders ChooseValueOrders(ir::UOpContext& ctx, Accesses& accesses,
                              std::span<const ir::UOp> order,
                              const absl::flat_hash_map<uint32_t, PackedProduct>& products,
                              const Stability& stability);

}  // namespace uopd::schedule
