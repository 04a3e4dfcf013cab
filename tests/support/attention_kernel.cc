// SPDX-License-Identifier: MIT
#include "tests/support/attention_kernel.h"

#include <array>
#include <cmath>
#include <numbers>

#include "tests/support/kernel_check.h"

namespace uopd::tests {
namespace {

using ir::Op;
using ir::UOp;

class Attention {
 public:
  Attention(ir::UOpContext& ctx, const AttentionShape& shape) : c_(ctx), b_(ctx), s_(shape) {
    keys_ = s_.symbolic ? ir::Variable(c_, "keys", s_.least_keys, s_.keys) : c_.Idx(s_.keys);
    shared_head_ = b_.Loop(s_.heads / s_.group);
    if (s_.group > 1) in_group_ = b_.Loop(s_.group);
    head_ = in_group_ ? b_.At(shared_head_, s_.group, in_group_) : shared_head_;
    query_ = b_.Loop(s_.queries);
  }

  UOp Key() {
    if (s_.shared_range && key_) return key_;
    return key_ = b_.Reduced(keys_);
  }
  UOp Sum(UOp x, UOp range, Op op = Op::ADD) {
    return ir::ReduceRanges(c_, op, x, std::array<UOp, 1>{range});
  }
  UOp At(UOp row, int64_t rows, UOp column, int64_t columns) {
    return b_.At(b_.At(head_, rows, row), columns, column);
  }
  UOp SharedAt(UOp row, int64_t rows, UOp column, int64_t columns) {
    return b_.At(b_.At(shared_head_, rows, row), columns, column);
  }
  UOp Buffer(int64_t slot, int64_t rows, int64_t columns) {
    const ir::Dtype dtype = slot == 0 && !s_.rounds ? Wide() : s_.dtype;
    return b_.Buffer(slot, dtype, (slot < 2 ? s_.heads : s_.heads / s_.group) * rows * columns);
  }
  ir::Dtype Wide() const { return s_.widens ? ir::Dtype::F32 : s_.dtype; }
  UOp Product(UOp a, UOp b) { return Mul(c_, ir::Cast(c_, a, Wide()), ir::Cast(c_, b, Wide())); }
  UOp Stage(UOp value, UOp key) {
    return ir::Staged(c_, value, s_.keys, key, UOp(), std::array<UOp, 1>{key});
  }

  UOp Score(UOp key) {
    const UOp e = b_.Reduced(s_.depth);
    const UOp q = b_.Load(Buffer(1, s_.queries, s_.depth), At(query_, s_.queries, e, s_.depth)),
              k = b_.Load(Buffer(2, s_.keys, s_.depth), SharedAt(key, s_.keys, e, s_.depth));
    const UOp score = Mul(c_, Sum(Product(q, k), e),
                          c_.Float(Wide(), 1 / std::sqrt(static_cast<double>(s_.depth))));
    if (!s_.causal) return score;
    const UOp last = Add(c_, query_, c_.Idx(s_.keys - s_.queries));
    return Where(c_, Lt(c_, last, key), c_.Float(Wide(), -INFINITY), score);
  }
  // Of the scores in an indexable of one row.
  template <class Row>
  UOp Exp(const Row& row, UOp key, UOp most) {
    const UOp log2e = c_.Float(Wide(), std::numbers::log2e);
    return ir::Alu(c_, Op::EXP2, {Mul(c_, Sub(c_, row(key), most), log2e)});
  }

  UOp Whole() {
    const UOp d = b_.Loop(s_.depth), k1 = Key();
    const UOp s = Stage(Score(k1), k1), k2 = Key();
    const auto scores = [&](UOp k) { return b_.Load(s, k); };
    const UOp most = Sum(scores(k2), k2, Op::MAX), k3 = Key();
    UOp p = Stage(Exp(scores, k3, most), k3), k4 = Key();
    const UOp sum = Sum(b_.Load(p, k4), k4), k5 = Key();
    if (s_.divided) {
      const UOp k6 = Key();
      p = Stage(ir::Alu(c_, Op::FDIV, {b_.Load(p, k6), sum}), k6);
    }
    const UOp v = b_.Load(Buffer(3, s_.keys, s_.depth), SharedAt(k5, s_.keys, d, s_.depth));
    UOp out = Sum(Product(ir::Cast(c_, b_.Load(p, k5), s_.dtype), v), k5);
    if (!s_.divided) out = ir::Alu(c_, Op::FDIV, {out, sum});
    if (s_.rounds) out = ir::Cast(c_, out, s_.dtype);
    const UOp to = Buffer(0, s_.queries, s_.depth), at = At(query_, s_.queries, d, s_.depth);
    if (in_group_)
      return b_.Kernel({b_.StoreLoops(to, at, out, {shared_head_, in_group_, query_, d})});
    return b_.Kernel({b_.StoreLoops(to, at, out, {head_, query_, d})});
  }
  UOp Scores() {
    const UOp k = b_.Loop(keys_);
    return b_.Kernel(
        {b_.StoreLoops(Buffer(0, s_.queries, s_.keys), At(query_, s_.queries, k, s_.keys), Score(k),
                       {head_, query_, k})});
  }
  UOp Softmax() {
    const UOp k = b_.Loop(keys_), k1 = Key(), k2 = Key();
    const auto scores = [&](UOp at) {
      return b_.Load(Buffer(1, s_.queries, s_.keys), At(query_, s_.queries, at, s_.keys));
    };
    const UOp most = Sum(scores(k1), k1, Op::MAX);
    const UOp out = ir::Alu(c_, Op::FDIV, {Exp(scores, k, most), Sum(Exp(scores, k2, most), k2)});
    return b_.Kernel({b_.StoreLoops(Buffer(0, s_.queries, s_.keys),
                                    At(query_, s_.queries, k, s_.keys), out, {head_, query_, k})});
  }
  UOp ProductOfRows() {
    const UOp d = b_.Loop(s_.depth), k = Key();
    const UOp p = b_.Load(Buffer(1, s_.queries, s_.keys), At(query_, s_.queries, k, s_.keys)),
              v = b_.Load(Buffer(2, s_.keys, s_.depth), At(k, s_.keys, d, s_.depth));
    return b_.Kernel(
        {b_.StoreLoops(Buffer(0, s_.queries, s_.depth), At(query_, s_.queries, d, s_.depth),
                       Sum(Mul(c_, p, v), k), {head_, query_, d})});
  }

 private:
  ir::UOpContext& c_;
  KernelBuilder b_;
  const AttentionShape s_;
  UOp keys_, shared_head_, in_group_, head_, query_, key_;
};

}  // namespace

UOp AttentionKernel(ir::UOpContext& ctx, const AttentionShape& shape) {
  return Attention(ctx, shape).Whole();
}
UOp ScoresKernel(ir::UOpContext& ctx, const AttentionShape& shape) {
  return Attention(ctx, shape).Scores();
}
UOp SoftmaxKernel(ir::UOpContext& ctx, const AttentionShape& shape) {
  return Attention(ctx, shape).Softmax();
}
UOp ProductKernel(ir::UOpContext& ctx, const AttentionShape& shape) {
  return Attention(ctx, shape).ProductOfRows();
}

}  // namespace uopd::tests
