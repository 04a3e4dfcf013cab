// SPDX-License-Identifier: MIT
// RowStates: the states of ONLINE (online.h) as registers of the threads that compute a tile of
// rows (warp_rows.h).
//
// A thread has an element of a state for each of its rows, and of the sums for each of its columns,
// too. The place of an element is a function of the number of the row's result, so that P can be
// taken for any row.
//
// Not thread-safe. What the constructor takes must outlive it.
#pragma once
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/codegen/attention/row_places.h"

namespace uopd::codegen {

class RowStates {
 public:
  RowStates(ir::UOpContext& ctx, ir::UOp sink, const RowTile& tile);

  // Whether the STAGE is that of a state.
  bool Has(ir::UOp stage) const;
  // What replaces the BUFFER of a state, and its STAGE, which has the sources `body` without
  // RANGEs. `fma`: the target has fused products and sums.
  ir::UOp MapBuffer(ir::UOp buffer);
  ir::UOp MapStage(ir::UOp stage, std::vector<ir::UOp> body, bool fma);
  // What replaces the INDEX of a state, which has the first source `from`; null if it is none.
  ir::UOp MaybeMapIndex(ir::UOp index, ir::UOp from);

 private:
  // The elements of a state in one thread.
  int64_t Elements(ir::UOp stage) const;
  // Where one of them is, for the column of the state or of the output; only sums have columns.
  ir::UOp ElementAt(bool sums, const OtherPlaces& column);

  ir::UOpContext& ctx_;
  const RowTile& tile_;
  const absl::flat_hash_map<uint32_t, ir::UOp> states_;  // as StatesOf
};

}  // namespace uopd::codegen
