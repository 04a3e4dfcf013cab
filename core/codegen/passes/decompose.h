// SPDX-License-Identifier: MIT
// Decompose: ops of ops.def that programs do not have, or have only for tame operands, become ops
// that they do have.
//
// Afterwards (docs/ir_programs.md): no small floats outside of memory, no MAX, RECIPROCAL,
// FLOORDIV, FLOORMOD, THREEFRY, bool arithmetic; CDIV and CMOD never divide by 0 or the lowest
// value by -1; shift amounts are below the width.
#pragma once
#include "core/base/status.h"
#include "core/codegen/codegen.h"

namespace uopd::codegen {

// Floats below 32 bits: values become f32 holding a value of the narrow dtype, rounded after each
// op. f16 stays in memory as it is, bf16 and fp8 as bits. Reductions accumulate in f32 and round
// once; staged values stay f32.
ir::UOp WidenSmallFloats(ir::UOpContext& ctx, ir::UOp sink);

// EXP2, LOG2, SIN and POW of f32 as polynomials, within 1 to 2 ulp; NaN, infinities and denormals
// as in ops.def.
ir::UOp DecomposeTranscendentals(ir::UOpContext& ctx, ir::UOp sink);

// Everything else. With fast_math a * b + c is a MULACC.
ir::UOp DecomposeAlu(ir::UOpContext& ctx, ir::UOp sink, const Target& target, bool fast_math);

}  // namespace uopd::codegen
