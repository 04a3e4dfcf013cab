// SPDX-License-Identifier: MIT
// A buffer of small elements, read as a buffer of 32-bit words.
//
// The kernel then declares the slot as u32. So this is for buffers all of whose loads are words:
// the caller looks.
#pragma once
#include "core/ir/context.h"

namespace uopd::codegen {

// The word whose elements, lowest bits first, are `value` for group = 0, 1, ...; null if there is
// none in memory: `value` is no LOAD of a buffer, its elements do not follow each other from a
// multiple of their number on, or their gates differ. REQUIRES: group is a RANGE of 32 /
// Bits(value.dtype()) iterations.
ir::UOp MaybeWordLoad(ir::UOpContext& ctx, ir::UOp value, ir::UOp group);

}  // namespace uopd::codegen
