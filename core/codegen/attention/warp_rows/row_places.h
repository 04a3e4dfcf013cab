// SPDX-License-Identifier: MIT
// RowPlaces: the RANGEs that number the elements of a warp's tile of rows, by lanes and by
// registers (warp_rows.h).
//
// Invariants:
//   - The parts of an axis that the instruction fixes are RANGEs of types LOCAL (the lane), UPCAST
//     and UNROLL.
//   - In place of a RANGE of one iteration there is the constant 0.
#pragma once
#include <initializer_list>
#include <vector>

#include "core/codegen/attention/warp_rows/row_fragment.h"
#include "core/codegen/attention/warp_rows/row_products.h"
#include "core/ir/context.h"

namespace uopd::codegen {

// An axis that lies across the rows.
struct OtherPlaces {
  ir::UOp tile;    // its number
  ir::UOp result;  // the number of the lane's result in the tile, along the axis
  ir::UOp place;   // what replaces the axis outside of operands
};

struct RowPlaces {
  ir::UOp lane, own_lane, other_lane;  // the lane, and its two fields
  ir::UOp rows_tile, own_result;       // as OtherPlaces, of the rows
  ir::UOp row;
  OtherPlaces keys, column, columns;  // as in RowProducts
  ir::UOp depth_step, key_step;       // of the sums of the first and of the second product
};

// A warp's tile of rows: what it computes, by which instruction, and where the elements are.
struct RowTile {
  RowProducts products;
  RowFragment fragment;
  RowPlaces places;
};

// The tile. New RANGEs get axis ids from `next_id` on, but that over tiles of rows: its id is that
// of the rows.
RowTile MakeRowTile(ir::UOpContext& ctx, const RowProducts& products, const RowFragment& fragment,
                    int64_t& next_id);

// A new RANGE; 0 if it had one iteration.
ir::UOp RangeOrZero(ir::UOpContext& ctx, int64_t size, ir::AxisType type, int64_t& next_id,
                    int64_t tag = 0);
// tile * size + inside.
ir::UOp InTile(ir::UOpContext& ctx, ir::UOp tile, int64_t size, ir::UOp inside);
// How many numbers the bits have.
inline int64_t NumbersOf(const std::vector<Fragment::Bit>& bits) {
  return int64_t{1} << bits.size();
}
// Appends those that are RANGEs: a range of one iteration is 0.
void AppendRanges(std::vector<ir::UOp>& out, std::initializer_list<ir::UOp> ranges);

}  // namespace uopd::codegen
