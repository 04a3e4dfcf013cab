// SPDX-License-Identifier: MIT
// Attention over many keys, without memory for its scores.
//
// The scores s of one query are a row of an array in the kernel (fusion/staging.h). A row that is
// too long for it would be written to memory, queries times keys of them. This pass divides the
// keys into blocks, whose rows are short. It is an algebraic identity: for keys k in blocks R, m_R
// the largest score of a block and m the largest of all,
//
//   sum_k softmax(s)_k v_k  =  sum_R a_R * (sum_{k in R} softmax_R(s)_k v_k)
//
//   softmax_R(s)_k = 2^(c (s_k - m_R)) / l_R          l_R = sum_{k in R} 2^(c (s_k - m_R))
//   a_R            = w_R / sum_R w_R                  w_R = 2^(c (m_R - m)) l_R
//
// so the result of each block is an attention of its own, and the result of all is their mean with
// weights a_R in [0, 1]. One kernel computes the results of all blocks with m_R and l_R, and a
// small one combines them. It is the way of FlashAttention (Dao et al., 2022) and of its form for
// long keys, Flash-Decoding, as a rewrite of the graph. So masks, biases, shared heads and rounded
// operands need nothing of their own.
//
// Rounding: the terms of a sum are added in another order, and each gets three more roundings. A
// block without any key (all scores are -infinity) weighs 0. Where all blocks are such, or where a
// score is NaN or +infinity, the result is NaN, as without this pass.
#pragma once
#include <vector>

#include "core/ir/context.h"
#include "core/schedule/schedule.h"

namespace uopd::schedule {

// Divides each sum of products with a softmax over more keys than can be staged
// (Options::stage_bytes). Only for softmaxes that nothing else uses, because a gradient needs the
// whole of it in any case, and where each key has at least 8 scores. The number of keys must be
// constant. `order`: a topological order of the graph, the sink last. Returns the new sink. Linear
// in the graph. Runs after RoundProducts and before Prepare.
ir::UOp SplitSoftmaxes(ir::UOpContext& ctx, const std::vector<ir::UOp>& order,
                       const Options& options);

}  // namespace uopd::schedule
