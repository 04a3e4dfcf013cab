// SPDX-License-Identifier: MIT
#include "core/schedule/kept/stability.h"

#include <algorithm>

#include "core/ir/shape.h"
#include "core/schedule/fusion/describe.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::OpSet;
using ir::UOp;

constexpr double kMost = 1e15;  // sums are capped: they can double at every node of a chain
constexpr OpSet kLeaves = {Op::CONST, Op::IOTA};
constexpr OpSet kCopied = {Op::CONTIGUOUS, Op::DETACH, Op::CONTIGUOUS_BACKWARD, Op::REDUCE};

}  // namespace

Stability::Stability(ir::UOpContext& ctx, std::span<const UOp> order,
                     const std::vector<bool>& stable) {
  facts_.resize(ctx.size());
  for (UOp u : order) {
    Facts& f = facts_[u.id()];
    if (u.Is(Op::PARAM)) {
      const auto slot = static_cast<size_t>(u.slot());
      const auto dims = ir::StaticDims(*ctx.ShapeOf(u));
      f.stable = dims && slot < stable.size() && stable[slot];
      f.varies = true;
      if (dims) f.leaf_bytes = static_cast<double>(ir::Product(*dims) * ir::ByteSize(u.dtype()));
      continue;
    }
    if (u.Is(kLeaves)) {
      f.stable = true;
      f.varies = u.Is(Op::IOTA);
      continue;
    }
    const bool computes = u.Is(ir::kElementwiseOps) || u.Is(Op::STACK);
    if (!computes && !u.Is(ir::kMovementOps) && !u.Is(kCopied)) continue;
    f.stable = true;
    f.work = OpWork(u);
    // The shape of a movement op is a source too: stable if it has no variables.
    for (UOp s : u.srcs()) {
      const Facts& from = facts_[s.id()];
      f.stable &= from.stable;
      f.varies |= from.varies;
      f.work = std::min(kMost, f.work + from.work);
      f.leaf_bytes = std::min(kMost, f.leaf_bytes + from.leaf_bytes);
    }
    if (u.Is(Op::REDUCE)) {
      // Operations of all terms, and at least as many as one load costs.
      double terms = 1;
      for (int64_t a : u.reduce_axes())
        terms *=
            static_cast<double>(ctx.BoundsOf((*ctx.ShapeOf(u.src(0)))[static_cast<size_t>(a)]).max);
      f.work = std::min(kMost, (f.work + 1) * std::max(1.0, terms) + kLoadWork);
    }
  }
}

}  // namespace uopd::schedule
