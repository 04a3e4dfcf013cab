// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "core/base/metrics.h"
#include "core/ir/build.h"
#include "core/rewrite/rewriter.h"

namespace uopd::rewrite {
namespace {

constexpr Any<0> x;
constexpr Any<1> y;
constexpr Any<2> z;
constexpr Const<4> c;
constexpr Const<5> d;

class RewriteTest : public ::testing::Test {
 protected:
  UOp Var(const char* name) { return ir::Variable(ctx, name, -100, 100); }
  template <class... A>
  UOp Once(UOp u, A... rule) {
    RuleSet rules("test");
    rules.Add("rule", rule...);
    rules.Freeze();
    std::vector<uint64_t> attempts(1);
    return rules.Apply(u, ctx, attempts.data()).result;
  }
  UOpContext ctx;
  UOp a = Var("a"), b = Var("b"), e = Var("e");
};

TEST_F(RewriteTest, CommutativeOperandsBacktrackFully) {
  // (x * y) + (z * x): the shared x is found in every arrangement.
  for (auto [p, q] : {std::pair(ir::Mul(ctx, a, b), ir::Mul(ctx, e, a)),
                      std::pair(ir::Mul(ctx, b, a), ir::Mul(ctx, a, e)),
                      std::pair(ir::Mul(ctx, a, b), ir::Mul(ctx, a, e)),
                      std::pair(ir::Mul(ctx, b, a), ir::Mul(ctx, e, a))}) {
    const UOp out = Once(ir::Add(ctx, p, q), x * y + z * x, x * (y + z));
    ASSERT_TRUE(out);
    EXPECT_EQ(out.src(0), a);
  }
  EXPECT_FALSE(Once(ir::Add(ctx, ir::Mul(ctx, a, b), ir::Mul(ctx, e, e)), x * y + z * x, x));
}

TEST_F(RewriteTest, NonCommutativeOperandsKeepTheirOrder) {
  EXPECT_EQ(Once(ir::Sub(ctx, a, ctx.Idx(3)), x - c, x), a);
  EXPECT_FALSE(Once(ir::Sub(ctx, ctx.Idx(3), a), x - c, x));
}

TEST_F(RewriteTest, ARepeatedVariableIsTheSameNode) {
  EXPECT_EQ(Once(ir::Sub(ctx, a, a), x - x, 0), ctx.Idx(0));
  EXPECT_FALSE(Once(ir::Sub(ctx, a, b), x - x, 0));
}

TEST_F(RewriteTest, LiteralsMatchAnyDtypeAndTakeTheirSurroundings) {
  const UOp f = ir::Cast(ctx, a, Dtype::F32);
  EXPECT_EQ(Once(ir::Mul(ctx, f, ctx.Float(Dtype::F32, 1)), x * 1, x), f);
  EXPECT_EQ(Once(ir::Mul(ctx, f, ctx.Float(Dtype::F32, 3)), x * 3, x + 2),
            ir::Add(ctx, f, ctx.Float(Dtype::F32, 2)));
}

TEST_F(RewriteTest, ConditionsAndFoldingOfConstants) {
  const UOp u =
      ir::Alu(ctx, Op::FLOORDIV, {ir::Alu(ctx, Op::FLOORDIV, {a, ctx.Idx(3)}), ctx.Idx(5)});
  EXPECT_EQ(Once(u, (x / c) / d, x / (c * d), When(c > 0 && d > 0)),
            ir::Alu(ctx, Op::FLOORDIV, {a, ctx.Idx(15)}));
  EXPECT_FALSE(Once(u, (x / c) / d, x / (c * d), When(c > 3 && d > 0)));
  EXPECT_FALSE(Once(u, (x / c) / d, x, [](const auto& m) { return m[d] == 4; }));
  // A folded constant that does not fit its dtype means that the rule does not apply.
  const UOp big = ctx.Idx(INT64_MAX);
  EXPECT_FALSE(Once(ir::Alu(ctx, Op::FLOORDIV, {ir::Alu(ctx, Op::FLOORDIV, {a, big}), big}),
                    (x / c) / d, x / (c * d)));
}

TEST_F(RewriteTest, GroupsAlternativesAndRest) {
  const UOp s = ctx.Make(Op::STACK, Dtype::Index, {a, b, e});
  EXPECT_EQ(Once(s, Node(Op::STACK, x, Rest()), x), a);
  EXPECT_FALSE(Once(s, Node(Op::STACK, x, y), x));
  EXPECT_FALSE(Once(s, Node(Op::STACK, Each(Node(Op::CONST))), 0));
  const UOp constants = ctx.Make(Op::STACK, Dtype::Index, {ctx.Idx(1), ctx.Idx(2)});
  EXPECT_TRUE(Once(constants, Node(Op::STACK, Each(Node(Op::CONST))),
                   [](const auto& m) { return m.root().src(1); }));
  EXPECT_EQ(Once(ir::Add(ctx, a, a), AnyOf(x + x, x * 2), x), a);
  EXPECT_EQ(Once(ir::Mul(ctx, a, ctx.Idx(2)), AnyOf(x + x, x * 2), x), a);
  EXPECT_TRUE(Once(ir::Lt(ctx, a, b), Group(ir::kComparisonOps, x, y),
                   [](const auto& m) { return m.ctx.Bool(true); }));
  EXPECT_FALSE(Once(a, Group(ir::kComparisonOps, x, y), 0));
  EXPECT_FALSE(Once(ir::Add(ctx, a, b), x.Is(kFloats) + y, x));
}

TEST_F(RewriteTest, TheFirstRuleWinsAndEveryAttemptCounts) {
  RuleSet rules("order");
  rules.Add("never", x + y, x, [](const auto&) { return false; });
  rules.Add("first", x + y, x);
  rules.Add("second", x + y, y);
  rules.Add("elsewhere", x * y, y);
  rules.Freeze();
  std::vector<uint64_t> attempts(4);
  EXPECT_EQ(rules.Apply(ir::Add(ctx, a, b), ctx, attempts.data()).result, a);
  EXPECT_EQ(attempts, (std::vector<uint64_t>{1, 1, 0, 0}));
}

TEST_F(RewriteTest, MoreThanSixtyFourRulesOfOneRoot) {
  RuleSet rules("many");
  for (int64_t i = 0; i < 200; ++i) rules.Add("n", x + i, i + 1);
  rules.Freeze();
  std::vector<uint64_t> attempts(200);
  for (int64_t i : {0, 63, 64, 130, 199}) {
    EXPECT_EQ(rules.Apply(ir::Add(ctx, a, ctx.Idx(i)), ctx, attempts.data()).result, ctx.Idx(i + 1))
        << i;
  }
}

TEST_F(RewriteTest, RewriterReachesAFixedPointOnSharedGraphs) {
  RuleSet rules("halve");
  rules.Add("twice", x + x, x * 2);
  rules.Add("merge", (x * c) * d, x * (c * d));
  rules.Freeze();
  UOp u = a;
  for (int i = 0; i < 60; ++i) u = ir::Add(ctx, u, u);
  Rewriter rewriter(ctx, rules);
  EXPECT_EQ(rewriter.Run(u), ir::Mul(ctx, a, ctx.Idx(int64_t{1} << 60)));
  EXPECT_EQ(rewriter.matches(), 60u + 59u);
  EXPECT_EQ(rewriter.Run(u), ir::Mul(ctx, a, ctx.Idx(int64_t{1} << 60)));
  EXPECT_EQ(rewriter.matches(), 60u + 59u) << "a second run is free";
}

TEST_F(RewriteTest, DivergenceStopsAndNamesTheRules) {
  RuleSet rules("pingpong");
  rules.Add("ping", x + c, x - c);
  rules.Add("pong", x - c, x + c);
  rules.Add("grow", x * y, (x * y) * 1);
  rules.Freeze();
  Rewriter rewriter(ctx, rules, 1000);
  const UOp out = rewriter.Run(ir::Mul(ctx, a, b));
  EXPECT_TRUE(out);
  EXPECT_TRUE(rewriter.diverged());
  EXPECT_EQ(rewriter.last_rules().back(), "pingpong.grow");
}

TEST_F(RewriteTest, CountsReachTheMetrics) {
  const uint64_t before = metrics::PatternMatches({"counted"}).value();
  RuleSet rules("counted");
  rules.Add("zero", x + 0, x);
  rules.Freeze();
  EXPECT_EQ(Rewrite(ctx, ir::Add(ctx, a, ctx.Idx(0)), rules), a);
  EXPECT_EQ(metrics::PatternMatches({"counted"}).value(), before + 1);
}

}  // namespace
}  // namespace uopd::rewrite
