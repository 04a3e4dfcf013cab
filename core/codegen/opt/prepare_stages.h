// SPDX-License-Identifier: MIT
// What is done to a kernel with STAGEs before opts speak of its axes.
//
// A reduction of staged values that could run in the loop that stages them takes the values
// themselves there, unless making one takes a reduction, which is better vectorised alone. Loops
// that cannot be one get RANGEs of their own, so that each can be split in its own way.
#pragma once
#include "core/ir/context.h"

namespace uopd::codegen {

// Equal in value. The same node if there is no STAGE or nothing to do; idempotent.
ir::UOp PrepareStages(ir::UOpContext& ctx, ir::UOp sink);

}  // namespace uopd::codegen
