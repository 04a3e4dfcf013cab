// SPDX-License-Identifier: MIT
// Decompose: expresses ops that a linear kernel may not contain by ops that it may contain.
//
// Three passes, in the order of this file; the stages are lowered and the loops unrolled and
// vectorised between the second and the third.
//
// Invariants of the result (docs/ir_linear.md)
//   (1) No floats below 32 bits outside of memory.
//   (2) No MAX, RECIPROCAL, FLOORDIV, FLOORMOD, THREEFRY and no arithmetic on bools.
//   (3) CDIV and CMOD never divide by 0, and never divide the lowest value by -1.
//   (4) Shift amounts are in [0, bits).
#pragma once
#include "core/base/status.h"
#include "core/codegen/codegen.h"

namespace uopd::codegen {

// Floats below 32 bits become f32 values that are rounded to the narrow dtype after each op. In
// memory f16 stays f16; bf16 becomes u16, fp8 becomes u8. A reduction accumulates in f32 and rounds
// once at its end; staged values are f32.
ir::UOp WidenSmallFloats(ir::UOpContext& ctx, ir::UOp sink, DtypeNumberSet converted);

// EXP2, EXP, LOG2, LOG, SIN, COS and POW as polynomials, each within one ulp. NaN, infinities,
// denormals and zeros as in C's library. On targets with has_scaling EXP2 and EXP of f32 stay, with
// the tag ir::kByScaling: the renderer writes the polynomial and the instruction. Where has_exp2,
// EXP2 stays, with 2 ulp; `flushes` gives it the tag ir::kFlushes.
ir::UOp DecomposeTranscendentals(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                                 bool flushes = false);

// All other ops. On targets with has_fma, sums of products from unrolled reductions become MULACC;
// with fast_math every float a * b + c does.
ir::UOp DecomposeAlu(ir::UOpContext& ctx, ir::UOp sink, const Target& target, bool fast_math);

}  // namespace uopd::codegen
