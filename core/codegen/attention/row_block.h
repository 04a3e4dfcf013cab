// SPDX-License-Identifier: MIT
// RowBlock: a row in blocks of n places (online.h).
//
// A row is what a maximum runs over. Several RANGEs may run over it, one for each reduction and
// each array of its elements. Each of them has a RANGE of n places that stands for it in a block.
// The last block may have places behind the row.
//
// Not thread-safe. The context must outlive it.
#pragma once
#include "absl/container/flat_hash_map.h"
#include "core/ir/context.h"

namespace uopd::codegen {

class RowBlock {
 public:
  // `block`: the RANGE over blocks. `size`: the number of places of the row.
  RowBlock(ir::UOpContext& ctx, ir::UOp block, ir::UOp size, int64_t n)
      : ctx_(ctx), block_(block), size_(size), n_(n) {}

  ir::UOp block() const { return block_; }
  int64_t n() const { return n_; }

  // Whether u is a REDUCE over the row, or a STAGE of the row's elements in their order.
  bool IsOverRow(ir::UOp u) const;
  // Whether u loads the element at `range` from such a STAGE.
  bool IsElement(ir::UOp u, ir::UOp range) const;

  // The first place of the block.
  ir::UOp Begin() const;
  // The place in a block that stands for a range over the row.
  ir::UOp InBlock(ir::UOp range);
  // That place, counted from the beginning of the row.
  ir::UOp InRow(ir::UOp range);
  // Whether a place is one of the row; null: all are.
  ir::UOp MaybeValid(ir::UOp range);

 private:
  ir::UOpContext& ctx_;
  const ir::UOp block_, size_;
  const int64_t n_;
  absl::flat_hash_map<uint32_t, ir::UOp> in_block_;
};

}  // namespace uopd::codegen
