// SPDX-License-Identifier: MIT
#include "core/codegen/attention/warp_rows/row_padding.h"

#include "core/ir/build.h"

namespace uopd::codegen {

using ir::UOp;

UOp RowPadding::Gated(UOp index, std::span<const UOp> srcs, UOp row) {
  UOp gate = srcs.size() == 3 ? srcs[2] : UOp();
  const UOp rows = rows_.src(0);
  const bool padded = !rows.Is(ir::Op::CONST) || rows.const_int() % tile_rows_ != 0;
  if (padded && open_.Varies(index.src(1), rows_)) {
    const UOp valid = Lt(ctx_, row, rows);
    gate = gate ? And(ctx_, gate, valid) : valid;
  }
  return ir::Index(ctx_, srcs[0], srcs[1], gate, index.arg().AsInt());
}

}  // namespace uopd::codegen
