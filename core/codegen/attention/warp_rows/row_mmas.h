// SPDX-License-Identifier: MIT
// RowMmas: both products of attention of a tile of rows by matrix instructions of a warp
// (warp_rows.h), with their operands.
//
// Keys and values are staged in shared memory, since all warps of a block need them. Queries are
// loaded by the lanes that need them, and the weights P are in the registers of these lanes.
//
// Not thread-safe. What the constructor takes must outlive it.
#pragma once
#include <span>

#include "core/codegen/attention/warp_rows/row_padding.h"
#include "core/codegen/attention/warp_rows/row_places.h"
#include "core/ir/graph.h"

namespace uopd::codegen {

class RowMmas {
 public:
  // `loads_words`, `next_id`: as for StageOperand.
  RowMmas(ir::UOpContext& ctx, const Target& target, const RowTile& tile, RowPadding& padding,
          bool loads_words, int64_t& next_id)
      : ctx_(ctx),
        target_(target),
        a_(tile.products),
        f_(tile.fragment),
        p_(tile.places),
        padding_(padding),
        loads_words_(loads_words),
        next_id_(next_id) {}

  // The results of a lane of the first product, and of the second one. `weights`: what became of P.
  ir::UOp Scores();
  ir::UOp Sums(ir::UOp weights);

 private:
  // The sum over steps of the instruction's products, for an operand that depends on the rows and
  // one that does not: the result of the lane with the number `other_result` along the axis across
  // the rows.
  ir::UOp Mma(ir::UOp of_rows, ir::UOp of_others, ir::UOp step, ir::UOp other_result);
  // The words of keys or values: tiles of `tile` along the axes of `own`, steps along those of
  // `summed`.
  ir::UOp StagedWords(ir::UOp value, ir::UOp maybe_valid, std::span<const ir::UOp> own,
                      ir::UOp tile, std::span<const ir::UOp> summed, ir::UOp step);
  // The words of the weights P that the lane has in its registers.
  ir::UOp Words(ir::UOp weights);
  // `value` with ranges replaced, and gated in the padding of the rows if these are.
  ir::UOp Replaced(ir::UOp value, const ir::Substitution& map);

  ir::UOpContext& ctx_;
  const Target& target_;
  const RowProducts& a_;
  const RowFragment& f_;
  const RowPlaces& p_;
  RowPadding& padding_;
  const bool loads_words_;
  int64_t& next_id_;
};

}  // namespace uopd::codegen
