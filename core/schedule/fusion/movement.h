// SPDX-License-Identifier: MIT
// Movement ops as index arithmetic: the position in the source of an element of the result. Used by
// fusion and lowering through Accesses (access.h).
#pragma once
#include "core/ir/context.h"
#include "core/ir/shape.h"

namespace uopd::schedule {

using IndexList = ir::SymbolicDims;  // one index expression per axis

// The index in u's source of the element of u at `index`. For a PAD, `gate` becomes false where the
// element is padding. The results are not simplified. REQUIRES: u is a movement op; `index` has one
// entry per axis of u.
IndexList SourceIndex(ir::UOpContext& ctx, ir::UOp u, std::span<const ir::UOp> index,
                      ir::UOp& gate);

// Row-major offset of an index in a buffer with these dimensions.
ir::UOp FlatIndex(ir::UOpContext& ctx, std::span<const int64_t> dims,
                  std::span<const ir::UOp> index);

}  // namespace uopd::schedule
