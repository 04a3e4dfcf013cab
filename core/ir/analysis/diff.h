// SPDX-License-Identifier: MIT
// Compares two graphs: lists their differences and measures their similarity. It explains why two
// graphs have different semantic keys.
//
// The graphs may be in different contexts. Both are walked in parallel from their roots, without
// recursion; O(nodes) for graphs of equal structure. Tags are ignored, since no key contains them.
#pragma once
#include <string>
#include <vector>

#include "core/base/interrupt.h"
#include "core/ir/context.h"

namespace uopd::ir {

struct Difference {
  uint32_t node_a = 0, node_b = 0;  // numbers of the two nodes, as Print gives them
  // From the root; .i is the number of the source: "SINK.0 > STORE.1 > MUL". A long path begins
  // with "... > ".
  std::string path;
  std::string field;  // "op", "dtype", "sources", or a part of the arg: "value", "bounds", ...
  std::string a, b;   // the contents of the field in both nodes
};

// The first `most` differences in the order of a depth-first walk; empty if the graphs are equal.
// Only causes are listed: not a dtype that differs because the dtype of a source differs, and
// nothing below two nodes with different ops. Ends early, with fewer, when `interrupt` is raised.
std::vector<Difference> Diff(const UOpContext& ctx_a, UOp a, const UOpContext& ctx_b, UOp b,
                             size_t most, Interrupt& interrupt);

// One hash for each node, sorted. A hash covers op, dtype and the ops of the sources; constants,
// sizes and buffers do not change it. Ends early, with fewer, when `interrupt` is raised.
std::vector<uint32_t> Sketch(const UOpContext& ctx, UOp root, Interrupt& interrupt);
// Jaccard index of two sketches as multisets, in [0, 1]; 1 for two empty ones.
double Similarity(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b);

}  // namespace uopd::ir
