// SPDX-License-Identifier: MIT
// Sums: what is reused, and what is checked in place, is what taking apart and making anew gives.
#include "core/rules/terms.h"

#include <gtest/gtest.h>

#include <random>

#include "core/ir/build.h"
#include "core/ir/io/render_expr.h"
#include "core/rules/index_expr.h"

namespace uopd::rules {
namespace {

using ir::Op;
using ir::UOp;

bool Same(const Sum& a, const Sum& b) {
  return a.constant == b.constant && std::equal(a.terms.begin(), a.terms.end(), b.terms.begin(),
                                                b.terms.end(), [](const Term& x, const Term& y) {
                                                  return x.value == y.value && x.factor == y.factor;
                                                });
}

class TermsTest : public ::testing::Test {
 protected:
  // A sum of up to `depth` levels, of ranges, quotients and products with small constants.
  UOp Random(int depth) {
    auto upto = [&](int n) { return static_cast<int64_t>(random_() % static_cast<unsigned>(n)); };
    if (depth == 0) {
      const UOp r = ir::Range(ctx_, ctx_.Idx(5 + upto(3)), upto(4), ir::AxisType::LOOP);
      if (upto(3) == 0) return ctx_.Idx(upto(7) - 3);
      return upto(4) == 0 ? ir::Alu(ctx_, Op::FLOORDIV, {r, ctx_.Idx(2)}) : r;
    }
    const UOp a = Random(depth - 1);
    switch (upto(6)) {
      case 0:
        return ir::Mul(ctx_, a, ctx_.Idx(upto(7) - 3));
      case 1:
        return ir::Sub(ctx_, a, Random(depth - 1));
      case 2:
        return ir::Alu(ctx_, Op::NEG, {a});
      default:
        return ir::Add(ctx_, a, Random(depth - 1));
    }
  }

  std::mt19937 random_{7};
  ir::UOpContext ctx_;
};

TEST_F(TermsTest, ASumOfPartsIsThatMadeAnew) {
  int normal = 0;
  for (int i = 0; i < 3000; ++i) {
    const UOp x = Random(i % 5), other = Random(i % 4);
    const auto sum = ToSum(ctx_, x);
    ASSERT_TRUE(sum.has_value());
    const UOp made = FromSum(ctx_, *sum);
    ASSERT_TRUE(made);
    EXPECT_EQ(FromSum(ctx_, *sum, x), made) << ir::RenderExpr(x);
    EXPECT_EQ(FromSum(ctx_, *sum, other), made) << ir::RenderExpr(x);
    const auto grown = ToSum(ctx_, ir::Add(ctx_, made, other));
    EXPECT_EQ(FromSum(ctx_, *grown, made), FromSum(ctx_, *grown)) << ir::RenderExpr(other);
    // Normal is what it makes of itself.
    ir::OpSet values;
    EXPECT_EQ(IsNormalSum(x, values), made == x && !x.Is(Op::CONST)) << ir::RenderExpr(x);
    if (made.Is(Op::CONST)) continue;
    ASSERT_TRUE(IsNormalSum(made, values)) << ir::RenderExpr(made);
    ASSERT_TRUE(NormalSum(made).has_value());
    EXPECT_TRUE(Same(*NormalSum(made), *ToSum(ctx_, made))) << ir::RenderExpr(made);
    ++normal;
  }
  EXPECT_GT(normal, 1000);
}

TEST_F(TermsTest, DifferencesCancel) {
  for (int i = 0; i < 300; ++i) {
    const UOp x = Random(3), y = Random(2);
    EXPECT_TRUE(Same(*ToDifference(ctx_, ir::Add(ctx_, y, x), x), *ToSum(ctx_, y)));
  }
}

TEST_F(TermsTest, IndexExpressionsAreMadeAsTheRulesLeaveThem) {
  for (int i = 0; i < 1000; ++i) {
    const UOp x = Random(i % 4), y = Random(i % 3), sum = ir::Add(ctx_, x, y);
    EXPECT_EQ(IndexSum(ctx_, x, y), FromSum(ctx_, *ToSum(ctx_, sum))) << ir::RenderExpr(sum);
    const UOp c = ctx_.Idx(i % 9 - 4), product = ir::Mul(ctx_, x, c);
    EXPECT_EQ(IndexProduct(ctx_, x, c), FromSum(ctx_, *ToSum(ctx_, product)));
    EXPECT_EQ(IndexProduct(ctx_, c, x), IndexProduct(ctx_, x, c));
    const UOp src[] = {x, y};
    EXPECT_EQ(WithIndexSources(ctx_, sum, src), sum);  // nothing has changed
    const UOp swapped[] = {y, x};
    EXPECT_EQ(WithIndexSources(ctx_, sum, swapped), x == y ? sum : IndexSum(ctx_, y, x));
  }
}

// What does not fit in another form stays as it is asked for.
TEST_F(TermsTest, IndexExpressionsOfWideNumbersArePlain) {
  const UOp x = ir::Variable(ctx_, "x", 0, INT64_MAX), one = ctx_.Idx(1),
            most = ctx_.Idx(INT64_MAX);
  const UOp below = ir::Add(ctx_, x, ctx_.Idx(-INT64_MAX));
  EXPECT_EQ(IndexSum(ctx_, most, most), ir::Add(ctx_, most, most));
  EXPECT_EQ(IndexSum(ctx_, below, one), ir::Add(ctx_, below, one));
  EXPECT_EQ(IndexSum(ctx_, below, x), ir::Add(ctx_, below, x));
  EXPECT_EQ(IndexProduct(ctx_, x, ctx_.Idx(3)), ir::Mul(ctx_, x, ctx_.Idx(3)));
  EXPECT_EQ(IndexProduct(ctx_, most, ctx_.Idx(3)), ir::Mul(ctx_, most, ctx_.Idx(3)));
}

TEST_F(TermsTest, CoefficientsStayBelow62Bits) {
  const UOp r = ir::Range(ctx_, ctx_.Idx(2), 0, ir::AxisType::LOOP);
  const int64_t big = (int64_t{1} << 62) - 1;
  const UOp most = ir::Mul(ctx_, r, ctx_.Idx(big));
  EXPECT_TRUE(ToSum(ctx_, most).has_value());
  EXPECT_TRUE(NormalSum(most).has_value());
  EXPECT_FALSE(ToSum(ctx_, ir::Add(ctx_, most, r)).has_value());
  EXPECT_FALSE(ToSum(ctx_, ir::Mul(ctx_, r, ctx_.Idx(big + 1))).has_value());
  EXPECT_FALSE(NormalSum(ir::Mul(ctx_, r, ctx_.Idx(big + 1))).has_value());
  EXPECT_FALSE(ToSum(ctx_, ir::Add(ctx_, r, ctx_.Idx(INT64_MIN))).has_value());
  EXPECT_FALSE(ToSum(ctx_, ir::Mul(ctx_, most, ctx_.Idx(INT64_MIN))).has_value());
}

TEST_F(TermsTest, BoundsOfWideSumsAreCutAndNotWrong) {
  const UOp x = ir::Variable(ctx_, "x", INT64_MIN, INT64_MAX);
  const int64_t big = (int64_t{1} << 62) - 1;
  const ir::Bounds b = Scaled(ctx_.BoundsOf(x), big);
  EXPECT_TRUE(b.min < INT64_MIN && b.max > INT64_MAX);
  const ir::Bounds n = Scaled(ctx_.BoundsOf(x), -1);
  EXPECT_TRUE(n.min == -ir::Int128{INT64_MAX} && n.max == -ir::Int128{INT64_MIN});
  for (int64_t d : {1, 3, 7}) {
    for (int64_t v = -10; v <= 10; ++v) {
      const ir::Int128 wide = ir::Int128{v} + (ir::Int128{d} << 70);  // the same remainder
      const auto floor = static_cast<int64_t>(FloorDiv(v, d)),
                 ceil = static_cast<int64_t>(CeilDiv(v, d));
      EXPECT_TRUE(floor * d <= v && v < (floor + 1) * d) << v << " " << d;
      EXPECT_TRUE(ceil * d >= v && v > (ceil - 1) * d) << v << " " << d;
      EXPECT_TRUE(FloorDiv(wide, d) == floor + (ir::Int128{1} << 70)) << v << " " << d;
      EXPECT_TRUE(CeilDiv(wide, d) == ceil + (ir::Int128{1} << 70)) << v << " " << d;
    }
  }
}

// 2^52 * (d - b) near the end of 64 bits: its terms are too large to be known, not both the same.
TEST_F(TermsTest, TermsThatAreTooLargeDoNotCancel) {
  const UOp d = ir::Variable(ctx_, "d", INT64_MIN, INT64_MIN + 16),
            b = ir::Variable(ctx_, "b", INT64_MIN + 2, INT64_MIN + 66);
  Sum sum;
  sum.terms.push_back({d, int64_t{1} << 52}), sum.terms.push_back({b, -(int64_t{1} << 52)});
  const ir::Bounds bounds = BoundsOf(ctx_, sum);
  EXPECT_TRUE(bounds.min <= -(ir::Int128{66} << 52) && bounds.max >= ir::Int128{14} << 52);
}

}  // namespace
}  // namespace uopd::rules
