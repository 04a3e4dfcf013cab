// SPDX-License-Identifier: MIT
// Attention as one kernel, and as the kernels that it is without STAGE.
#pragma once
#include "core/ir/build.h"

namespace uopd::tests {

struct AttentionShape {
  int64_t heads = 1, queries = 1, keys = 1, depth = 1;
  ir::Dtype dtype = ir::Dtype::F32;
  bool causal = false;        // query i sees the keys up to i + keys - queries
  bool symbolic = false;      // `keys` is the largest value of the variable "keys"
  bool shared_range = false;  // all loops over the keys are over one RANGE
  bool divided = false;       // divides by the sum before the product, in a STAGE, not after it
};

// Slots: 0 out (heads, queries, depth), 1 Q of that shape, 2 K and 3 V (heads, keys, depth).
ir::UOp AttentionKernel(ir::UOpContext& ctx, const AttentionShape& shape);

// Scores: 0 out (heads, queries, keys), 1 Q, 2 K. Softmax: 0 out, 1 scores. Product: 0 out,
// 1 softmax, 2 V.
ir::UOp ScoresKernel(ir::UOpContext& ctx, const AttentionShape& shape);
ir::UOp SoftmaxKernel(ir::UOpContext& ctx, const AttentionShape& shape);
ir::UOp ProductKernel(ir::UOpContext& ctx, const AttentionShape& shape);

}  // namespace uopd::tests
