// SPDX-License-Identifier: MIT
#include "core/rules/foresight.h"

#include <gtest/gtest.h>

#include "core/ir/build.h"
#include "core/rules/given.h"

namespace uopd::rules {
namespace {

using ir::Op;
using ir::UOp;

class ForesightTest : public ::testing::Test {
 protected:
  UOp Range(int64_t size, int64_t id) {
    return ir::Range(ctx_, ctx_.Idx(size), id, ir::AxisType::LOOP);
  }
  UOp By(Op op, UOp x, int64_t c) { return ir::Alu(ctx_, op, {x, ctx_.Idx(c)}); }
  bool May(UOp e, UOp tight, int64_t min, int64_t max) {
    const BoundedNode node = {tight, {min, max}};
    return MaySimplify(ctx_, MathGraph(e), std::span(&node, 1), nullptr);
  }

  ir::UOpContext ctx_;
  const UOp a_ = Range(10, 0), b_ = Range(25, 1);
  const UOp sum_ = ir::Add(ctx_, a_, b_);  // 0 to 33
};

TEST_F(ForesightTest, SumsOfTermsStay) {
  EXPECT_FALSE(May(ir::Add(ctx_, ir::Mul(ctx_, a_, ctx_.Idx(25)), b_), a_, 0, 4));
}

TEST_F(ForesightTest, ComparisonsChangeWhenTheyAreDecided) {
  const UOp less = ir::Lt(ctx_, sum_, ctx_.Idx(8));
  EXPECT_FALSE(May(less, sum_, 1, 33));
  EXPECT_FALSE(May(less, sum_, 7, 8));
  EXPECT_TRUE(May(less, sum_, 8, 33));
  EXPECT_TRUE(May(less, sum_, 0, 7));
  EXPECT_FALSE(May(less, b_, 0, 7));  // a_ may be 9
  EXPECT_TRUE(May(less, b_, 8, 24));
  const UOp equal = By(Op::CMPEQ, sum_, 8);
  EXPECT_FALSE(May(equal, sum_, 8, 33));
  EXPECT_TRUE(May(equal, sum_, 9, 33));
  // 8 * b + a < 48 is b < 6 once a cannot carry.
  const UOp wide = ir::Lt(ctx_, ir::Add(ctx_, ir::Mul(ctx_, b_, ctx_.Idx(8)), a_), ctx_.Idx(48));
  EXPECT_FALSE(May(wide, a_, 0, 8));
  EXPECT_TRUE(May(wide, a_, 0, 7));
}

TEST_F(ForesightTest, QuotientsChangeInOnePeriodAndPassTheirBoundsOn) {
  for (Op op : {Op::FLOORDIV, Op::FLOORMOD}) {
    EXPECT_FALSE(May(By(op, sum_, 10), sum_, 0, 28));
    EXPECT_TRUE(May(By(op, sum_, 10), sum_, 10, 19));
  }
  const UOp outer = ir::Lt(ctx_, By(Op::FLOORDIV, sum_, 10), ctx_.Idx(3));
  EXPECT_FALSE(May(outer, sum_, 1, 33));
  EXPECT_TRUE(May(outer, sum_, 0, 28));
  // The remainder has all its values all the same.
  EXPECT_FALSE(May(ir::Lt(ctx_, By(Op::FLOORMOD, sum_, 10), ctx_.Idx(3)), sum_, 0, 28));
}

TEST_F(ForesightTest, NothingIsForeseenOfOtherOps) {
  EXPECT_TRUE(May(ir::Alu(ctx_, Op::MAX, {sum_, a_}), sum_, 0, 28));
}

TEST_F(ForesightTest, ASumReplacesOneOfItsTerms) {
  Sum terms;
  terms.terms.push_back({a_, 1}), terms.terms.push_back({b_, 1});
  auto may = [&](UOp e, int64_t min, int64_t max) {
    const BoundedSum known = {sum_, terms, {min, max}, b_};
    return MaySimplify(ctx_, MathGraph(e), {}, &known);
  };
  // a + b + 3 is the whole and 3.
  const UOp shifted = ir::Add(ctx_, a_, ir::Add(ctx_, b_, ctx_.Idx(3)));
  EXPECT_FALSE(may(By(Op::FLOORDIV, shifted, 10), 0, 28));
  EXPECT_TRUE(may(By(Op::FLOORDIV, shifted, 10), 7, 16));
  EXPECT_FALSE(may(By(Op::FLOORDIV, a_, 4), 7, 16));  // no b in it
}

// A sum that is positive has a positive term, which is foreseen of terms with bounds too.
TEST_F(ForesightTest, CasesOfASumAreForeseen) {
  auto below = [&](UOp x, int64_t c) { return ir::Lt(ctx_, x, ctx_.Idx(c)); };
  const UOp positive = ir::Not(ctx_, below(sum_, 1));
  const UOp known = ir::And(ctx_, ir::And(ctx_, below(a_, 6), below(b_, 6)), positive);
  const UOp none = ir::And(ctx_, below(a_, 1), below(b_, 1));
  const UOp one = ir::And(ctx_, below(a_, 1), below(b_, 2));
  for (Foresee foresee : {Foresee::kYes, Foresee::kNo}) {
    for (UOp condition : {positive, known})
      EXPECT_EQ(SimplifyGiven(ctx_, none, condition, true, foresee), ctx_.Bool(false));
    EXPECT_FALSE(SimplifyGiven(ctx_, one, known, true, foresee));  // b_ may be 1
  }
}

TEST_F(ForesightTest, EqualitiesPutOneValueInTermsOfTheOther) {
  const UOp equal = ir::Alu(ctx_, Op::CMPEQ, {b_, ir::Add(ctx_, a_, ctx_.Idx(2))});
  const UOp larger = ir::Lt(ctx_, a_, b_);
  EXPECT_EQ(SimplifyGiven(ctx_, larger, equal), ctx_.Bool(true));
  EXPECT_FALSE(SimplifyGiven(ctx_, larger, equal, /*holds=*/false));
  const UOp unequal = ir::Alu(ctx_, Op::CMPNE, {equal.src(0), equal.src(1)});
  EXPECT_EQ(SimplifyGiven(ctx_, larger, unequal, /*holds=*/false), ctx_.Bool(true));
}

}  // namespace
}  // namespace uopd::rules
