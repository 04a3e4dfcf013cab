// SPDX-License-Identifier: MIT
// The first guess at good opts for a kernel, from its shape alone.
#pragma once
#include <vector>

#include "core/codegen/codegen.h"

namespace uopd::codegen {

// Opts that apply. Never fails: a kernel that nothing is known about gets none.
std::vector<Opt> HeuristicOpts(ir::UOpContext& ctx, ir::UOp sink, const Target& target);

}  // namespace uopd::codegen
