// SPDX-License-Identifier: MIT
// Estimated number of lines of a linear kernel (core/codegen/codegen.h) for one element of an op,
// after codegen has decomposed it.
//
// The scheduler and the heuristic limit the size of kernels with these numbers.
#pragma once
#include "core/ir/uop.h"

namespace uopd::rules {

// 0 if u is not an elementwise op. Includes RoundingInstructions.
double Instructions(ir::UOp u);
// The lines that round a result to this dtype; 0 unless it is a float below 32 bits, which is
// computed as f32.
double RoundingInstructions(ir::Dtype dtype);

}  // namespace uopd::rules
