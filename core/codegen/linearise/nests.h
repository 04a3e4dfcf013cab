// SPDX-License-Identifier: MIT
// The statements of a kernel, and which of them share one nest of loops.
//
// Invariants
//   (1) Nests stand in the order of the kernel's statements, and so do the stores of a nest.
//   (2) Statements share a nest only if none of them loads from a buffer that another one stores
//       to.
#pragma once
#include <vector>

#include "core/ir/context.h"

namespace uopd::codegen {

// Stores that share one nest of loops.
struct Nest {
  std::vector<ir::UOp> loops;
  std::vector<ir::UOp> stores;
};

// Consecutive statements with equal loops share one nest.
std::vector<Nest> Nests(const ir::UOpContext& ctx, ir::UOp sink);

// Appends the STOREs and ENDs of a statement: the members of GROUPs, in order.
void Flatten(ir::UOp statement, std::vector<ir::UOp>& out);

}  // namespace uopd::codegen
