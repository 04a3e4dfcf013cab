// SPDX-License-Identifier: MIT
// HoistShared: values that several roles of a block need (ROLE in docs/ir_linear.md) are computed
// before the first role.
#pragma once
#include "core/ir/context.h"

namespace uopd::codegen {

// `linear` with those lines in front of its first ROLE. The same if it has no roles, or none of
// them needs a value of another. REQUIRES: such values are elementwise.
ir::UOp HoistShared(ir::UOpContext& ctx, ir::UOp linear);

}  // namespace uopd::codegen
