// SPDX-License-Identifier: MIT
// RowPadding: the rows of the last tile that are none of the kernel's rows (warp_rows.h). An
// address that depends on the row has a gate there.
//
// Not thread-safe. The context must outlive it.
#pragma once
#include <span>

#include "core/codegen/passes/open_ranges.h"
#include "core/ir/context.h"

namespace uopd::codegen {

class RowPadding {
 public:
  // `rows`: the RANGE over the rows of the kernel; tiles have `tile_rows` of them.
  RowPadding(ir::UOpContext& ctx, ir::UOp sink, ir::UOp rows, int64_t tile_rows)
      : ctx_(ctx), rows_(rows), tile_rows_(tile_rows), open_(ctx, sink) {}

  // The INDEX of the kernel with these sources, gated in the padding. `row`: what replaces the
  // RANGE in them.
  ir::UOp Gated(ir::UOp index, std::span<const ir::UOp> srcs, ir::UOp row);

 private:
  ir::UOpContext& ctx_;
  const ir::UOp rows_;
  const int64_t tile_rows_;
  const OpenRanges open_;
};

}  // namespace uopd::codegen
