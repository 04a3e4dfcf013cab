// SPDX-License-Identifier: MIT
// JoinMaxima: a maximum of f32 becomes one line on targets that have an instruction for it
// (Target::has_max).
//
// The passes before compute it by two comparisons and two selects (combine.h), which the rules
// simplify as other arithmetic. So what is left of them afterwards is joined again.
#pragma once
#include "core/ir/context.h"

namespace uopd::codegen {

// REQUIRES: a LINEAR.
ir::UOp JoinMaxima(ir::UOpContext& ctx, ir::UOp linear);

}  // namespace uopd::codegen
