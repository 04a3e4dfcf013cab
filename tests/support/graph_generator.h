// SPDX-License-Identifier: MIT
// Random tensor graphs, valid by construction: movement, elementwise, broadcast, reduce, where,
// cast, stack, random bits; symbolic dimensions; copies to another device; assignments, whole and
// in part, also from overlapping parts of the slot itself, and reads before and after them.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/ir/context.h"
#include "tests/support/tensor_interpreter.h"

namespace uopd::testing {

struct GeneratedGraph {
  ir::UOp sink;
  // Small integer values, and no intermediate value that its dtype cannot hold exactly: float sums
  // are exact in any order. Slots have the largest of every dimension.
  std::vector<HostArray> slots;
  // By slot: elements inside of its actual dimensions. What others hold means nothing.
  std::vector<std::vector<size_t>> visible;
  std::map<std::string, int64_t> variables;
  std::vector<ir::SymbolicDims> shapes;  // by slot
};

struct GeneratorOptions {
  int ops = 20;           // nodes that are tried; some give nothing new
  bool symbolic = false;  // some dimensions are variables
  bool devices = false;   // values on CPU:0 and CPU:1, with COPYs between them
};

// The same seed and options give the same graph.
GeneratedGraph GenerateGraph(ir::UOpContext& ctx, uint64_t seed, const GeneratorOptions& options);

// The values that its graph is to be run with: those of `variables`, and where it has some, all of
// them at their least and at their most. Sets `variables` and `visible` of g.
std::vector<GeneratedGraph> WithOtherVariables(ir::UOpContext& ctx, const GeneratedGraph& g);

}  // namespace uopd::testing
