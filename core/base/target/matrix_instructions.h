// SPDX-License-Identifier: MIT
// The matrix instructions of GPUs whose operands lie in the registers of a warp, as values for
// Target::matrix_instructions: shapes, dtypes, and which lane holds what.
//
// Sources: PTX ISA, "Matrix fragments for mma" and "Register fragments for wgmma"; AMD's
// instruction set references of CDNA3, RDNA3 and RDNA4.
#pragma once
#include "core/base/target/target.h"

namespace uopd {

// Elements of tf32 fill a word each. An instruction ignores the low 13 bits of it; codegen rounds
// before.

// mma.sync of a compute capability: 80 is 8.0. Best first; none below 8.0.
std::vector<MatrixInstruction> NvidiaMatrixInstructions(int capability);
// wgmma of "sm_90a": four warps multiply matrices that lie in shared memory. The widest first.
std::vector<MatrixInstruction> WarpgroupMatrixInstructions();
// MFMA or WMMA of "gfx90a", "gfx942", "gfx1100", "gfx1201"; none of other processors.
std::vector<MatrixInstruction> AmdMatrixInstructions(std::string_view processor);

}  // namespace uopd
