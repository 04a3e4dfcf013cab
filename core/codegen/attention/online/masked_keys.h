// SPDX-License-Identifier: MIT
// Tiles of keys that a mask hides (ONLINE; online.h).
//
// A causal mask makes the scores of query q minus infinity from some key X(q) on. A tile from there
// on changes no state: its maximum is minus infinity, and its terms are 0. So the state stores only
// where the tile begins before X(q). This is an algebraic fact about a kernel with the gate in it;
// TrimKeys then shortens the loop.
//
// X comes from comparisons of the place along the row with what does not depend on it: WHERE(q <
// key, -inf, score). A mask in memory says nothing. Terms are 0 as far as the other factor is
// finite: infinity and NaN in the values of keys of hidden tiles do not reach the result, as if
// these keys did not exist.
//
// Thread-safe for different contexts.
#pragma once
#include <span>

#include "core/ir/context.h"

namespace uopd::codegen {

// X as an index expression over the ranges outside of the row: from this place of the row on, the
// maximum sees -infinity and the terms of all sums are 0. Null: there is none. `maximum` and
// `sums`: REDUCEs over one range each, of one row; loads from STAGEs of the row's elements stand
// for these elements.
ir::UOp MaybeMaskedFrom(ir::UOpContext& ctx, ir::UOp maximum, std::span<const ir::UOp> sums);

// The kernel with fewer iterations of the loop over key tiles: as many as the gates of states need,
// for all threads of a thread block. The gates disappear. Runs after ApplyOpts.
ir::UOp TrimKeys(ir::UOpContext& ctx, ir::UOp sink);

}  // namespace uopd::codegen
