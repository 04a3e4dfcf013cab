// SPDX-License-Identifier: MIT
// Random tensor graphs, valid by construction, for fuzz tests of the whole pipeline.
//
// They contain movement, elementwise ops, broadcasting, reductions, WHERE, casts, STACK, random
// bits, symbolic dimensions, copies to another device, and assignments: to a whole slot or a part
// of it, also from an overlapping part of the same slot, with reads before and after.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/context.h"
#include "tests/support/tensor_interpreter.h"

namespace uopd::test {

struct GeneratedGraph {
  ir::UOp sink;
  // Values are small integers, and every intermediate value is exact in its dtype, so float sums do
  // not depend on their order. Symbolic dimensions of a slot have their maximum.
  std::vector<HostArray> slots;
  // By slot: the elements inside of its dimensions in this run. Other elements are arbitrary.
  std::vector<std::vector<size_t>> visible;
  std::map<std::string, int64_t> variables;
  std::vector<ir::SymbolicDims> shapes;  // by slot
};

struct GeneratorOptions {
  int ops = 20;           // attempts to add an op; some add nothing
  bool symbolic = false;  // some dimensions are variables
  bool devices = false;   // values on two devices of `kind`, 0 and 1, with COPYs between them
  std::string_view kind = "CPU";
};

// The same seed and options give the same graph.
GeneratedGraph GenerateGraph(ir::UOpContext& ctx, uint64_t seed, const GeneratorOptions& options);

// g itself and, if it has variables, two variants: all variables at their minimum and all at their
// maximum. The variants differ in `variables` and `visible`.
std::vector<GeneratedGraph> WithOtherVariables(ir::UOpContext& ctx, const GeneratedGraph& g);

}  // namespace uopd::test
