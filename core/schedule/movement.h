// SPDX-License-Identifier: MIT
// Movement ops as index arithmetic: where an element of the result lies in the source.
#pragma once
#include "core/ir/context.h"
#include "core/ir/shape.h"

namespace uopd::schedule {

using IndexList = ir::SymbolicDims;  // one index expression per axis

// Position in the source of the element of `u` at `index`; `gate` is narrowed to where the element
// is not padding. REQUIRES: u is a movement op and index has one entry per axis of u. Results are
// not simplified.
IndexList SourceIndex(ir::UOpContext& ctx, ir::UOp u, std::span<const ir::UOp> index,
                      ir::UOp& gate);

// Row-major offset of an index in a buffer with these (largest) dimensions.
ir::UOp FlatIndex(ir::UOpContext& ctx, std::span<const int64_t> dims,
                  std::span<const ir::UOp> index);

}  // namespace uopd::schedule
