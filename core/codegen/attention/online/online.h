// SPDX-License-Identifier: MIT
// ONLINE: sums over a row that depend on the maximum of the row, in one pass over tiles of its
// keys.
//
//   M = max_j s_j       R_k = sum_j f_kj * 2^(-c_k * M)       (f without M; c_k > 0, or 0: no M)
//
// becomes, for each key tile, which is n places of the row, with m = -inf at the beginning,
//
//   m' = max(m, max of the tile)
//   R_k = R_k * 2^(c_k * (m - m')) + sum of f_kj * 2^(-c_k * m') over the tile
//
// A softmax and its product with a matrix are such sums (FlashAttention). A row of scores that is
// staged then has n elements instead of all.
//
// The numbers m and R_k are states. In the kernel a state is a BUFFER {REG}; see StatesOf.
//
//   STAGE {n}(value, index, shown, RANGE...)      what an iteration of the loop over key tiles
//                                                 stores; the value loads from INDEX(BUFFER, index,
//                                                 gate) what the iteration before stored
//   AFTER(BUFFER, END(GROUP(STAGE, ...), RANGE))  the state after the loop over key tiles
//
// `shown` is true, or false in tiles that a mask hides (masked_keys.h). The number of places may be
// symbolic, if it is at least 1.
//
// Slot k of n is the STAGE n - 1 - k of the GROUP. A state may use what states of lower slots held
// before the iteration, so those are stored later.
//
// If all of a row is -inf, s_j - M is NaN, and so is every R_k with c_k > 0. Tiles compute with 0
// for a maximum so far of -inf, which makes their terms 0; the results become NaN at the end.
//
// Thread-safe for different contexts.
#pragma once
#include "absl/container/flat_hash_map.h"
#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::codegen {

// The kernel with the row of the maximum over `range` in key tiles of n places. Other axes keep
// their order; the loop over key tiles and those of states come after them. INVALID_ARGUMENT if the
// rule does not apply. REQUIRES: PrepareStages has run.
absl::StatusOr<ir::UOp> MakeOnline(ir::UOpContext& ctx, ir::UOp sink, ir::UOp range, int64_t n);

// The states of a kernel: id of a BUFFER -> the STAGE that says what is stored there.
absl::flat_hash_map<uint32_t, ir::UOp> StatesOf(const ir::UOpContext& ctx, ir::UOp sink);
// Whether u closes the loop over key tiles of states.
bool ClosesStates(ir::UOp u);
// The BUFFER of a state if u is one, or the state after its loop; else null.
ir::UOp MaybeState(ir::UOp u);

}  // namespace uopd::codegen
