// SPDX-License-Identifier: MIT
#include "core/codegen/opt/heuristic.h"

namespace uopd::codegen {

std::vector<Opt> HeuristicOpts(ir::UOpContext&, ir::UOp, const Target&) { return {}; }

}  // namespace uopd::codegen
