// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/passes/threads/thread_digits.h"

#include <bit>

#include "core/rules/index_expr.h"

namespace uopd::codegen {

using ir::Op;
using ir::UOp;

UOp ThreadDigits::Digit(ThreadBits::Field field) const {
  if (field.count == 0) return ctx_.Idx(0);
  UOp out = thread_;
  if (field.first > 0)
    out = ir::Alu(ctx_, Op::FLOORDIV, {out, ctx_.Idx(int64_t{1} << field.first)});
  if (int64_t{1} << (field.first + field.count) < threads_)
    out = ir::Alu(ctx_, Op::FLOORMOD, {out, ctx_.Idx(int64_t{1} << field.count)});
  return out;
}

UOp ThreadDigits::Gathered(int64_t mask) const {
  UOp out = ctx_.Idx(0);
  int placed = 0;
  for (auto left = static_cast<uint64_t>(mask); left != 0;) {
    const int first = std::countr_zero(left), count = std::countr_one(left >> first);
    left &= ~static_cast<uint64_t>(ThreadBits::Field{first, count}.mask());
    out = rules::IndexSum(
        ctx_, out,
        rules::IndexProduct(ctx_, Digit({first, count}), ctx_.Idx(int64_t{1} << placed)));
    placed += count;
  }
  return out;
}

UOp ThreadDigits::MaybeAllZero(int64_t mask) const {
  UOp out;
  for (auto left = static_cast<uint64_t>(mask); left != 0;) {
    const int first = std::countr_zero(left), count = std::countr_one(left >> first);
    left &= ~static_cast<uint64_t>(ThreadBits::Field{first, count}.mask());
    out = MaybeBoth(ctx_, out, Lt(ctx_, Digit({first, count}), ctx_.Idx(1)));
  }
  return out;
}

}  // namespace uopd::codegen
