// SPDX-License-Identifier: MIT
// How two graphs differ, and how alike they are: what explains that two semantic keys are not one.
//
// The graphs may live in different contexts and are walked in parallel from their roots. Iterative;
// O(nodes) for graphs of equal structure. Tags do not count: they are never part of a key.
#pragma once
#include <string>
#include <vector>

#include "core/ir/context.h"

namespace uopd::ir {

struct Difference {
  uint32_t node_a = 0, node_b = 0;  // numbers of the two nodes, as Print gives them
  std::string
      path;  // from the root: "SINK.0 > STORE.1 > MUL"; .i: which source; long ones "... > "
  std::string
      field;  // "op", "dtype", "sources", or what the arg of the op is: "value", "bounds", ...
  std::string a, b;  // the field's contents
};

// The causes, in the order of a depth-first walk, `most` at the most; empty when the graphs are the
// same. What follows from a difference below is not listed: a dtype that differs because that of a
// source does, and everything under nodes with different ops.
std::vector<Difference> Diff(const UOpContext& ctx_a, UOp a, const UOpContext& ctx_b, UOp b,
                             size_t most);

// A hash per node of what is local to it (op, dtype, ops of its sources), sorted: constants, sizes
// and buffers do not matter.
std::vector<uint32_t> Sketch(const UOpContext& ctx, UOp root);
// Shared part of two sketches as multisets (Jaccard), in [0, 1]; two empty ones are alike.
double Similarity(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b);

}  // namespace uopd::ir
