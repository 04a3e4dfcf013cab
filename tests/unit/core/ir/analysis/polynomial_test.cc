// SPDX-License-Identifier: MIT
#include "core/ir/analysis/polynomial.h"

#include <gtest/gtest.h>

#include <random>

#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/verify/spec.h"

namespace uopd::ir {
namespace {

// Division by zero gives 0, as everywhere.
Int128 ValueOf(UOp u, UOp first, Int128 a, Int128 b) {
  if (u.Is(Op::CONST)) return u.const_int();
  if (u.Is(Op::DEFINE_VAR)) return u == first ? a : b;
  auto source = [&](size_t i) { return ValueOf(u.src(i), first, a, b); };
  if (u.Is(Op::WHERE)) return source(source(0) != 0 ? 1 : 2);
  const Int128 x = source(0), y = source(1);
  const Int128 floored = y == 0 ? 0 : x / y - ((x % y != 0) && ((x < 0) != (y < 0)) ? 1 : 0);
  switch (u.op()) {
    case Op::ADD:
      return x + y;
    case Op::SUB:
      return x - y;
    case Op::MUL:
      return x * y;
    case Op::MAX:
      return std::max(x, y);
    case Op::CMPLT:
      return x < y ? 1 : 0;
    case Op::FLOORDIV:
      return floored;
    default:
      return y == 0 ? 0 : x - y * floored;
  }
}

class PolynomialTest : public ::testing::Test {
 protected:
  UOp Idx(int64_t v) { return ctx_.Idx(v); }
  UOp Op2(Op op, UOp a, UOp b) { return Alu(ctx_, op, {a, b}); }
  bool Fits(UOp start, UOp size, UOp whole) {
    return IsNeverNegative(ctx_, {{whole, 1}, {start, -1}, {size, -1}});
  }

  UOpContext ctx_;
  const UOp v_ = Variable(ctx_, "v", 1, 64), w_ = Variable(ctx_, "w", 0, 9);
};

TEST_F(PolynomialTest, DifferencesAreProven) {
  const UOp more = Add(ctx_, v_, Idx(1)), both = Add(ctx_, v_, w_);
  EXPECT_TRUE(Fits(Idx(0), v_, more));
  EXPECT_TRUE(Fits(Idx(1), v_, more));
  EXPECT_FALSE(Fits(Idx(2), v_, more));
  EXPECT_TRUE(Fits(v_, Idx(1), more));
  EXPECT_FALSE(Fits(Idx(0), more, v_));
  EXPECT_TRUE(Fits(v_, w_, both));
  EXPECT_TRUE(Fits(w_, v_, both));
  EXPECT_FALSE(Fits(w_, w_, v_));
  // v <= v * v, since v is at least 1; w * w - w + 1 is never negative, though not termwise.
  const UOp square = Mul(ctx_, v_, v_);
  EXPECT_TRUE(Fits(Idx(0), v_, square));
  EXPECT_FALSE(Fits(Idx(0), square, v_));
  EXPECT_TRUE(Fits(v_, Idx(0), Mul(ctx_, Add(ctx_, v_, w_), v_)));
  // (v + w) * (v + w) against v * v + 2 * v * w.
  EXPECT_TRUE(Fits(square, Mul(ctx_, Mul(ctx_, v_, w_), Idx(2)), Mul(ctx_, both, both)));
}

TEST_F(PolynomialTest, QuotientsAndMaximaAreProven) {
  // Rows of four: enough for v, and fewer than four too many.
  const UOp rows = Op2(Op::FLOORDIV, Add(ctx_, v_, Idx(3)), Idx(4)),
            padded = Mul(ctx_, rows, Idx(4));
  EXPECT_TRUE(Fits(Idx(0), v_, padded));
  EXPECT_FALSE(Fits(Idx(1), v_, padded));
  EXPECT_TRUE(Fits(Idx(0), padded, Add(ctx_, v_, Idx(3))));
  EXPECT_FALSE(Fits(Idx(0), padded, Add(ctx_, v_, Idx(2))));
  const UOp larger = Op2(Op::MAX, v_, w_);
  EXPECT_TRUE(Fits(Idx(0), w_, larger));
  EXPECT_TRUE(Fits(Idx(0), larger, Add(ctx_, v_, w_)));
  EXPECT_FALSE(Fits(Idx(0), larger, v_));
  EXPECT_TRUE(Fits(Idx(0), Op2(Op::FLOORMOD, v_, Idx(7)), v_));
}

// n - max(n - m, 0) is the smaller one of n and m, also if n contains a quotient, which is rounded.
TEST_F(PolynomialTest, MaximaOfQuotientsAreTakenByCases) {
  const UOp n = Sub(ctx_, Idx(2100), Op2(Op::FLOORDIV, Mul(ctx_, v_, v_), Idx(2)));
  const UOp less = Op2(Op::MAX, Sub(ctx_, n, v_), Idx(0));
  EXPECT_TRUE(IsNeverNegative(ctx_, {{n, 1}, {less, -1}}));
  EXPECT_FALSE(IsNeverNegative(ctx_, {{n, 1}, {less, -1}, {Idx(1), -2}}));
}

TEST_F(PolynomialTest, DimensionsAreNoLargerThanTheyCanBe) {
  const UOp doubled = Add(ctx_, v_, v_), length = Sub(ctx_, doubled, v_);
  EXPECT_TRUE(DimensionBounds(ctx_, length).min == 1 && DimensionBounds(ctx_, length).max == 64);
  EXPECT_EQ(MaxDims(ctx_, std::span(&length, 1)), (Dims{64}));
  const UOp one = Sub(ctx_, Add(ctx_, v_, Idx(1)), v_);
  EXPECT_TRUE(DimensionBounds(ctx_, one).IsPoint());
}

TEST_F(PolynomialTest, ProductsAreCompared) {
  const UOp n = Mul(ctx_, v_, Idx(4)), more = Add(ctx_, v_, Idx(1));
  EXPECT_TRUE(SameProduct(ctx_, std::array{v_, Idx(4)}, std::array{n}));
  EXPECT_TRUE(SameProduct(ctx_, std::array{more, Idx(4)}, std::array{Add(ctx_, n, Idx(4))}));
  EXPECT_TRUE(SameProduct(ctx_, std::array{v_, w_, Idx(2)},
                          std::array{Mul(ctx_, w_, Idx(2)), Mul(ctx_, v_, Idx(1))}));
  EXPECT_FALSE(SameProduct(ctx_, std::array{v_, Idx(4)}, std::array{more, Idx(4)}));
  EXPECT_FALSE(SameProduct(ctx_, std::array{v_, v_}, std::array{v_, w_}));
}

// What is proven holds for all values, and bounds hold them: against values, one by one.
TEST_F(PolynomialTest, RandomExpressionsKeepWhatIsProven) {
  std::mt19937_64 random(7);
  auto pick = [&](int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); };
  int proven = 0, refuted = 0;
  for (int round = 0; round < 3000; ++round) {
    UOpContext ctx;
    const UOp vars[2] = {Variable(ctx, "a", pick(4) - 1, 3 + pick(4)),
                         Variable(ctx, "b", 0, 1 + pick(5))};
    std::vector<UOp> pool = {vars[0], vars[1], ctx.Idx(pick(5)), ctx.Idx(pick(7) - 3)};
    for (int i = 0; i < 6; ++i) {
      const UOp x = pool[random() % pool.size()], y = pool[random() % pool.size()];
      constexpr Op kOps[] = {Op::ADD,      Op::SUB,      Op::MUL,  Op::MAX,
                             Op::FLOORDIV, Op::FLOORMOD, Op::WHERE};
      const Op op = kOps[pick(7)];
      if (op == Op::WHERE) {
        pool.push_back(Where(ctx, Lt(ctx, x, y), x, ctx.Idx(pick(4))));
      } else {
        pool.push_back(Alu(ctx, op, {x, y}));
      }
    }
    const UOp whole = pool.back(), part = pool[pool.size() - 2], start = pool[random() % 5];
    const bool fits = IsNeverNegative(ctx, {{whole, 1}, {start, -1}, {part, -1}});
    const bool same = SameProduct(ctx, std::array{whole, start}, std::array{part, pool[5]});
    const Bounds bounds = DimensionBounds(ctx, whole);
    bool holds = true;
    for (int64_t a = vars[0].ints()[0]; a <= vars[0].ints()[1]; ++a) {
      for (int64_t b = 0; b <= vars[1].ints()[1]; ++b) {
        auto at = [&](UOp u) { return ValueOf(u, vars[0], a, b); };
        const Int128 w = at(whole), p = at(part), s = at(start);
        ASSERT_TRUE(bounds.min <= w && w <= bounds.max);
        holds &= w - s - p >= 0;
        ASSERT_TRUE(!same || w * s == p * at(pool[5]));
      }
    }
    ASSERT_TRUE(!fits || holds) << "round " << round;
    proven += fits ? 1 : 0, refuted += fits ? 0 : holds ? 1 : 0;
  }
  EXPECT_GT(proven, 300);
  EXPECT_LT(refuted, proven / 2);  // true, but not seen
}

// A question costs the same for a thousand terms as for a million.
TEST_F(PolynomialTest, LargeExpressionsAreAtoms) {
  UOp sum = v_, product = v_, power = Add(ctx_, v_, w_);
  for (int i = 0; i < 100000; ++i) sum = Add(ctx_, sum, w_), product = Mul(ctx_, product, Idx(1));
  for (int i = 0; i < 30; ++i) power = Mul(ctx_, power, power);
  EXPECT_TRUE(Fits(Idx(0), sum, sum));
  EXPECT_TRUE(Fits(Idx(0), product, Add(ctx_, product, Idx(1))));
  EXPECT_TRUE(Fits(Idx(0), power, power));
  EXPECT_FALSE(Fits(Idx(1), power, power));
}

}  // namespace
}  // namespace uopd::ir
