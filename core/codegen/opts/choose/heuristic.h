// SPDX-License-Identifier: MIT
// Chooses opts for a kernel without measuring: from its axes, accesses and arithmetic.
//
// The start of the search (core/search) and the choice of every kernel that is not tuned.
// docs/codegen/cpu.md and docs/codegen/gpu.md describe the steps.
#pragma once
#include <vector>

#include "core/codegen/codegen.h"

namespace uopd::codegen {

// Every returned opt applies, in this order. Never fails: returns no opts for a kernel with no axes
// or with more axes than it can represent.
std::vector<Opt> HeuristicOpts(ir::UOpContext& ctx, ir::UOp sink, const Target& target);

}  // namespace uopd::codegen
