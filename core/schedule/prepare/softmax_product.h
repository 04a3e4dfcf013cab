// SPDX-License-Identifier: MIT
// Sums of products with a softmax over what is summed up: the second product of attention.
//
// Not thread-safe. The context must outlive the object.
#pragma once
#include <optional>
#include <vector>

#include "core/ir/context.h"
#include "core/schedule/schedule.h"

namespace uopd::schedule {

// u, or what it was made of by these ops.
ir::UOp UnderOps(ir::OpSet ops, ir::UOp u);

// FDIV(e, REDUCE ADD e) with e = EXP2(scale * (scores - REDUCE MAX scores)), over one axis.
struct Softmax {
  ir::UOp scores;
  ir::UOp maybe_scale;  // a positive constant
  int64_t axis = 0;
  int64_t keys = 0, least_keys = 0;  // at most, and at least; equal if their number is constant
};
std::optional<Softmax> MaybeSoftmax(ir::UOpContext& ctx, ir::UOp u);

struct SoftmaxProduct {
  ir::UOp mul;        // of the factor, which is a view of the softmax, and of the values
  size_t side = 0;    // of the factor in `mul`
  ir::UOp top, base;  // base: the softmax that top, the factor, is a view of
  Softmax softmax;
};

class SoftmaxProducts {
 public:
  // `order`: a topological order of the graph.
  SoftmaxProducts(ir::UOpContext& ctx, const std::vector<ir::UOp>& order);

  // The product that the REDUCE `made` sums up, if nothing else uses the softmax. `old`: the same
  // node of `order`; the graph of `made` may be another one.
  std::optional<SoftmaxProduct> MaybeOf(ir::UOp made, ir::UOp old);

  // Whether a device computes all of it in one kernel, however many keys there are: it keeps no row
  // of scores, because it multiplies both products by matrix instructions of warps (ONLINE and TC
  // of codegen). There must be work for its processors without a division of the keys.
  bool IsOnline(const SoftmaxProduct& product, const KernelLimits& limits);
  uint32_t UsesOf(ir::UOp u) const { return uses_[u.id()]; }

 private:
  std::optional<SoftmaxProduct> OfSide(ir::UOp reduce, ir::UOp mul, ir::UOp old_mul, size_t side);
  double Elements(ir::UOp x) const;

  ir::UOpContext& ctx_;
  std::vector<uint32_t> uses_;  // by id, in `order`
};

// The nodes of such products (IsOnline), by id.
struct OnlineNodes {
  // Scores and what is computed of them, up to the factor: rows that need no array, however long
  // they are.
  std::vector<bool> rows;
  // Maximum, sum, and both sums of products: they stay whole, because one kernel computes them.
  std::vector<bool> reduces;
};
OnlineNodes FindOnlineNodes(ir::UOpContext& ctx, const std::vector<ir::UOp>& order,
                            const Options& options);

}  // namespace uopd::schedule
