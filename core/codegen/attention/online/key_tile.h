// SPDX-License-Identifier: MIT
// KeyTile: the n keys of a row that one iteration of ONLINE computes together (online.h).
//
// A row is what a maximum runs over, and its places are its keys. Several RANGEs may run over it,
// one for each reduction and each array of its elements. Each of them has a RANGE of n places that
// stands for it in a tile. The last tile may have places behind the row.
//
// Not thread-safe. The context must outlive it.
#pragma once
#include "absl/container/flat_hash_map.h"
#include "core/ir/context.h"

namespace uopd::codegen {

class KeyTile {
 public:
  // `loop`: the RANGE over tiles. `size`: the number of places of the row.
  KeyTile(ir::UOpContext& ctx, ir::UOp loop, ir::UOp size, int64_t n)
      : ctx_(ctx), loop_(loop), size_(size), n_(n) {}

  ir::UOp loop() const { return loop_; }
  int64_t n() const { return n_; }

  // Whether u is a REDUCE over the row, or a STAGE of the row's elements in their order.
  bool IsOverRow(ir::UOp u) const;
  // Whether u loads the element at `range` from such a STAGE.
  bool IsElement(ir::UOp u, ir::UOp range) const;

  // The first place of the tile.
  ir::UOp Begin() const;
  // The place in a tile that stands for a range over the row.
  ir::UOp InTile(ir::UOp range);
  // That place, counted from the beginning of the row.
  ir::UOp InRow(ir::UOp range);
  // Whether a place is one of the row; null: all are.
  ir::UOp MaybeValid(ir::UOp range);

 private:
  ir::UOpContext& ctx_;
  const ir::UOp loop_, size_;
  const int64_t n_;
  absl::flat_hash_map<uint32_t, ir::UOp> in_tile_;
};

}  // namespace uopd::codegen
