// SPDX-License-Identifier: MIT
// BLOCK: a reduced axis in panels, with the partial results of many tiles kept in an array.
//
// The loop over panels of the reduced axis stands outside of loops over tiles of the output:
//
//   for each panel p of the reduced axis
//     for each tile t inside of the panel
//       array[t] = array[t] + the sum of the terms of p
//
// So what a panel reads can be copied in long rows (PACK) and stays in a cache for all of its
// tiles.
//
// The array is a STAGE whose tag is a PartialTag (passes/stages.h).
#pragma once
#include <span>

#include "core/codegen/opts/make/pack_value.h"

namespace uopd::codegen {

// RANGEs of the loops that fill arrays.
struct FillRanges {
  int64_t& next_id;          // the first free axis id
  ir::Substitution of = {};  // RANGE or index of the kernel -> what stands for it in these loops
};

// Replaces `value`, the result of the reduction `op` over one iteration of `panels`, by a load of
// the result over all of them. The array covers `parts`, the RANGEs inside of the panel that the
// value depends on. `fill`: the loops that fill the array, which reductions share; RANGEs that are
// missing are added. REQUIRES: the ranges have constant sizes, `panels` is not empty.
ir::UOp KeepPartials(ir::UOpContext& ctx, ir::UOp value, ir::Op op, std::span<const ir::UOp> panels,
                     std::span<const PackPart> parts, FillRanges& fill);

}  // namespace uopd::codegen
