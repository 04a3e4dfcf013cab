// SPDX-License-Identifier: MIT
// Builders of attention as one kernel with STAGEs, and as three kernels without STAGEs.
#pragma once
#include "core/ir/build.h"

namespace uopd::tests {

struct AttentionShape {
  int64_t heads = 1, queries = 1, keys = 1, depth = 1;
  ir::Dtype dtype = ir::Dtype::F32;
  bool causal = false;        // query i uses only the keys up to i + keys - queries
  bool symbolic = false;      // the number of keys is a variable "keys" with this maximum
  int64_t least_keys = 0;     // its minimum
  bool shared_range = false;  // all loops over the keys share one RANGE
  int64_t group = 1;          // queries of so many neighbouring heads share keys and values
  bool widens = false;        // f32 but for Q, K, V and the factor of V, which are of `dtype`
  bool rounds = false;        // with widens: the result is of `dtype` too
  bool divided = false;       // divide by the sum in a STAGE before the product, not after it
};

// Slots: 0 out and 1 Q of shape (heads, queries, depth), 2 K and 3 V of shape (heads / group, keys,
// depth).
ir::UOp AttentionKernel(ir::UOpContext& ctx, const AttentionShape& shape);

// The three kernels. Slots of the scores: 0 out (heads, queries, keys), 1 Q, 2 K. Of the softmax: 0
// out, 1 scores. Of the product: 0 out, 1 softmax, 2 V.
ir::UOp ScoresKernel(ir::UOpContext& ctx, const AttentionShape& shape);
ir::UOp SoftmaxKernel(ir::UOpContext& ctx, const AttentionShape& shape);
ir::UOp ProductKernel(ir::UOpContext& ctx, const AttentionShape& shape);

}  // namespace uopd::tests
