// SPDX-License-Identifier: MIT
// Both products of attention in a kernel with ONLINE (warp_rows.h): which sums, axes and states
// they are.
#pragma once
#include <string>
#include <vector>

#include "core/codegen/opts/make/tensor_core.h"

namespace uopd::codegen {

// What the kernel of ONLINE must be made of. Axes are RANGEs of that kernel.
struct RowProducts {
  ir::UOp end, loop;          // the END of the loop over key tiles, and its RANGE
  ir::UOp scores, sums;       // the REDUCEs of both products
  ir::UOp sums_state;         // the STAGE of the state that keeps the second one
  Factors first, second;      // their operands: first.a and second.a depend on the rows
  std::vector<ir::UOp> keys;  // the RANGEs over the keys of a tile
  ir::UOp depth;              // that of the sum of the scores
  ir::UOp rows;               // the output axis of the rows
  ir::UOp column, columns;    // the columns of the values: of the state, and of the output
  ir::UOp maybe_valid;        // false in the padding of the keys, of the range of `sums`
};

// Reads them from a kernel that MakeOnline made; `range` is that of the sum over a tile of keys.
// Why the kernel has other parts; empty: `out` is set. Thread-safe for different contexts.
std::string ReadRowProducts(ir::UOpContext& ctx, ir::UOp sink, ir::UOp range, RowProducts& out);

}  // namespace uopd::codegen
