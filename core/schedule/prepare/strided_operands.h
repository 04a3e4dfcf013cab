// SPDX-License-Identifier: MIT
// Copies of the operands of products that are read with gaps.
//
// A convolution of 1 x 1 with a stride of 2 reads every second element of every second row. As an
// index this keeps rows and columns two loops, which are short (14, 7), and each vector is
// gathered. Written to memory once, the operand is contiguous: rows and columns become one loop,
// and vectors are loads. The copy has a quarter of the elements, and each of them is used by every
// output channel.
//
// Only for what is in memory already: the order of a value that the program computes is free, and
// kept/value_orders.h chooses it.
#pragma once
#include <vector>

#include "core/ir/context.h"
#include "core/schedule/fusion/access.h"

namespace uopd::schedule {

// Puts a CONTIGUOUS below the EXPANDs of each operand of a product (kept/product.h) that uses at
// most half of the elements of its base, none of them next to each other, and each of them often.
// Returns the new sink. `order`: a topological order of the graph, the sink last. Linear in the
// graph.
ir::UOp CopyStridedOperands(ir::UOpContext& ctx, Accesses& accesses,
                            const std::vector<ir::UOp>& order);

}  // namespace uopd::schedule
