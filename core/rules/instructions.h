// SPDX-License-Identifier: MIT
// How many lines of a program (core/codegen/codegen.h) one element of an op becomes, where devices
// have no instruction for it: what limits on the size of kernels count in.
#pragma once
#include "core/ir/uop.h"

namespace uopd::rules {

// 0 for what is no elementwise op.
double Instructions(ir::UOp u);
// Of rounding a float of this dtype, which is computed as f32 if it is smaller.
double RoundingInstructions(ir::Dtype dtype);

}  // namespace uopd::rules
