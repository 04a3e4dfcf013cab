// SPDX-License-Identifier: MIT
// Intervals of index and stored integers: exact up to the ends of 64 bits and past them, where
// wider arithmetic takes over. The reference computes every case of small operands, and the corners
// of large ones in 128 bits.
#include "core/ir/analysis/bounds.h"

#include <gtest/gtest.h>

#include "core/base/text.h"
#include "core/ir/analysis/eval.h"
#include "core/ir/build.h"

namespace uopd::ir {
namespace {

constexpr Op kOps[] = {Op::ADD,      Op::SUB,   Op::MUL,   Op::MAX,  Op::FLOORDIV,
                       Op::FLOORMOD, Op::CMPLT, Op::CMPNE, Op::CMPEQ};

class BoundsTest : public ::testing::Test {
 protected:
  UOp Var(int64_t min, int64_t max) {
    return min == max ? ctx_.Idx(min) : Variable(ctx_, Cat("v", n_++), min, max);
  }
  UOpContext ctx_;
  int n_ = 0;
};

// Every value that the op takes lies inside, and the ends are taken where both operands are free.
TEST_F(BoundsTest, HoldEveryValueOfSmallOperands) {
  for (Op op : kOps) {
    for (int64_t a = -5; a <= 5; ++a) {
      for (int64_t b = a; b <= 5; b += 2) {
        for (int64_t c = -4; c <= 4; ++c) {
          for (int64_t d = c; d <= 4; d += 3) {
            const Bounds bounds = ctx_.BoundsOf(Alu(ctx_, op, {Var(a, b), Var(c, d)}));
            Int128 min = INT64_MAX, max = INT64_MIN;
            for (int64_t x = a; x <= b; ++x) {
              for (int64_t y = c; y <= d; ++y) {
                const Dtype dtype = kComparisonOps.Has(op) ? Dtype::Bool : Dtype::Index;
                const Scalar operands[] = {Scalar::Of(ctx_.Idx(x)), Scalar::Of(ctx_.Idx(y))};
                const Int128 v = EvalAlu(op, dtype, operands)->wide();
                min = std::min(min, v), max = std::max(max, v);
              }
            }
            EXPECT_TRUE(bounds.min <= min && max <= bounds.max)
                << Name(op) << " [" << a << "," << b << "] [" << c << "," << d << "]";
            if (op == Op::FLOORDIV || op == Op::FLOORMOD) continue;  // not always the closest
            EXPECT_TRUE(bounds.min == min && bounds.max == max)
                << Name(op) << " [" << a << "," << b << "] [" << c << "," << d << "]";
          }
        }
      }
    }
  }
}

TEST_F(BoundsTest, OfQuotientsAndRemaindersByAConstantAreTheClosest) {
  for (int64_t a = -9; a <= 9; ++a) {
    for (int64_t b = a; b <= 9; ++b) {
      for (int64_t c = 1; c <= 5; ++c) {
        auto floor = [&](int64_t x) { return (x - ((x % c) + c) % c) / c; };
        const UOp x = Var(a, b);
        const Bounds q = ctx_.BoundsOf(Alu(ctx_, Op::FLOORDIV, {x, ctx_.Idx(c)}));
        EXPECT_TRUE(q.min == floor(a) && q.max == floor(b)) << a << " " << b << " " << c;
        const Bounds r = ctx_.BoundsOf(Alu(ctx_, Op::FLOORMOD, {x, ctx_.Idx(c)}));
        const bool one_period = floor(a) == floor(b);
        EXPECT_TRUE(r.min == (one_period ? a - c * floor(a) : 0) &&
                    r.max == (one_period ? b - c * floor(a) : c - 1))
            << a << " " << b << " " << c;
      }
    }
  }
}

TEST_F(BoundsTest, OfAnIndexPassTheEndsOf64Bits) {
  const Int128 big = INT64_MAX, small = INT64_MIN;
  const UOp x = Var(INT64_MIN, INT64_MAX);
  auto of = [&](Op op, UOp a, UOp b) { return ctx_.BoundsOf(Alu(ctx_, op, {a, b})); };
  const Bounds sum = of(Op::ADD, x, ctx_.Idx(1));
  EXPECT_TRUE(sum.min == small + 1 && sum.max == big + 1);
  const Bounds difference = of(Op::SUB, ctx_.Idx(-1), x);
  EXPECT_TRUE(difference.min == -1 - big && difference.max == -1 - small);
  const Bounds product = of(Op::MUL, x, ctx_.Idx(-3));
  EXPECT_TRUE(product.min == -3 * big && product.max == -3 * small);
  const Bounds square = of(Op::MUL, x, Var(INT64_MIN, INT64_MAX));
  EXPECT_TRUE(square.min < small && square.max > big);    // cut, but wide
  const UOp wide = Alu(ctx_, Op::MUL, {x, ctx_.Idx(4)});  // of 66 bits
  const Bounds back = of(Op::FLOORDIV, wide, ctx_.Idx(4));
  EXPECT_TRUE(back.min == small && back.max == big);
  EXPECT_TRUE(of(Op::CMPLT, wide, ctx_.Idx(0)).min == 0);
  const Bounds first = of(Op::FLOORMOD, Var(INT64_MIN, INT64_MIN + 1), ctx_.Idx(INT64_MAX));
  EXPECT_TRUE(first.min >= 0 && first.max <= big - 1);
}

TEST_F(BoundsTest, OfStoredIntegersWrap) {
  for (Dtype d : {Dtype::I8, Dtype::I32, Dtype::I64, Dtype::U32, Dtype::U64}) {
    const IntRange range = RangeOf(d);
    const UOp x = ctx_.Make(Op::CAST, d, {Var(0, 100)});
    auto of = [&](Op op, Int128 c) { return ctx_.BoundsOf(Alu(ctx_, op, {x, ctx_.Int(d, c)})); };
    EXPECT_TRUE(of(Op::ADD, 20).min == 20 && of(Op::ADD, 20).max == 120) << Name(d);
    const Bounds over = of(Op::ADD, range.max - 50);
    EXPECT_TRUE(over.min == range.min && over.max == range.max) << Name(d);
    const Bounds under = of(Op::SUB, range.max);
    EXPECT_TRUE(under.min == (range.min < 0 ? -range.max : range.min)) << Name(d);
    EXPECT_TRUE(of(Op::FLOORDIV, 7).max == 14 && of(Op::FLOORMOD, 7).max == 6) << Name(d);
  }
}

}  // namespace
}  // namespace uopd::ir
