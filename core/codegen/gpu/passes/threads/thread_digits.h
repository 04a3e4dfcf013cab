// SPDX-License-Identifier: MIT
// Expressions over the number of a thread in its block.
//
// REQUIRES of all: the bits of a mask or field are below the number of threads, a power of two.
#pragma once
#include "core/codegen/gpu/passes/threads/thread_bits.h"
#include "core/ir/build.h"

namespace uopd::codegen {

class ThreadDigits {
 public:
  ThreadDigits(ir::UOpContext& ctx, int64_t threads) : ctx_(ctx), threads_(threads) {
    thread_ = ctx.Make(ir::Op::SPECIAL, ir::Dtype::Index, {ctx.Idx(threads)},
                       ctx.Data({static_cast<int64_t>(ir::AxisType::LOCAL), 0}));
  }

  int64_t threads() const { return threads_; }
  ir::UOp thread() const { return thread_; }
  // The value of the field: 0 for a field without bits.
  ir::UOp Digit(ThreadBits::Field field) const;
  // The bits of `mask` next to each other, the lowest one first.
  ir::UOp Gathered(int64_t mask) const;
  // Whether all bits of the mask are 0; null if the mask is 0.
  ir::UOp MaybeAllZero(int64_t mask) const;

 private:
  ir::UOpContext& ctx_;
  const int64_t threads_;
  ir::UOp thread_;
};

// Both conditions; one of them may be null.
inline ir::UOp MaybeBoth(ir::UOpContext& ctx, ir::UOp maybe_a, ir::UOp maybe_b) {
  if (!maybe_a || !maybe_b) return maybe_a ? maybe_a : maybe_b;
  return And(ctx, maybe_a, maybe_b);
}

}  // namespace uopd::codegen
