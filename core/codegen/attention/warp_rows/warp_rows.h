// SPDX-License-Identifier: MIT
// TC of a kernel with ONLINE: both products of attention by matrix instructions of a warp
// (FlashAttention).
//
// The kernel of ONLINE computes, for each tile of n keys, products S = Q K^T, a few values of S
// that follow from the maximum so far, and products P V of values P of S. A warp computes a tile of
// rows of the result:
//
//   for each tile of keys
//     copy K and V of the tile to shared memory
//     S   = Q K^T by the instruction; the results stay in registers
//     m'  = maximum of S: of the results of a lane, then over lanes (SHUFFLE)
//     P   = of S and m', element by element, in registers
//     O   = O * scale + P V by the instruction; P is an operand as it lies
//
// That P is an operand as it lies is a fact about the Fragments of the instruction: the lane that
// holds the result (row, key) of the first product must hold the element (row, key) of an operand
// of the second one. Where the rows of Q are the rows of the instruction this holds for mma.sync;
// where they are its columns (K Q^T and V^T P^T), for MFMA and for WMMA of RDNA4. Warp rows need no
// memory of a warp, and no words of an operand move between lanes.
//
// All parts of an axis that the instruction fixes are RANGEs of types LOCAL (the lane), UPCAST and
// UNROLL. A kernel that has them is like others: the loops that are left of the rows can be blocks
// and further threads. States (online.h) are registers (kThreadStage), set before the loop over key
// tiles to what leaves a sum or a maximum as it is. So the loop may have any number of iterations,
// also none.
//
// Thread-safe for different contexts.
#pragma once
#include "core/base/status.h"
#include "core/base/target/target.h"
#include "core/codegen/opts/plan_state.h"
#include "core/ir/context.h"

namespace uopd::codegen {

// TC of a kernel with ONLINE: see OptRow::add.
absl::Status AddWarpRows(Adding& adding, const Opt& opt);

// What MakeWarpRows made of the kernel.
struct WarpRowsKernel {
  ir::UOp sink;
  ir::UOp rows;                // the RANGE over tiles of rows
  int64_t tile_rows = 0;       // rows of a tile
  int64_t number_of_rows = 0;  // at most
  int64_t copies = 0;          // of 16 bytes, for the keys or the values of a step
  int64_t registers = 0;       // of a thread, for operands and results
};

// The kernel with both products by the `which`-th instruction that fits, counted from 1; 0: the
// first one. `range` is that of the sum over a tile of keys. INVALID_ARGUMENT if no instruction
// fits, with the reason. REQUIRES: MakeOnline made the kernel; a GPU.
absl::StatusOr<WarpRowsKernel> MakeWarpRows(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                                            ir::UOp range, int64_t which);

}  // namespace uopd::codegen
