// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstdlib>

#include "absl/container/flat_hash_map.h"
#include "core/base/config/debug_flags.h"
#include "core/base/telemetry/metrics.h"
#include "core/ir/build.h"
#include "core/rewrite/match_stats.h"
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

TEST_F(RewriteTest, ANodeThatDependsOnItselfIsFoundAtOnce) {
  RuleSet rules("pingpong");
  rules.Add("ping", x + c, x - c);
  rules.Add("pong", x - c, x + c);
  rules.Add("grow", x * y, (x * y) * 1);
  rules.Freeze();
  for (const UOp u : {ir::Mul(ctx, a, b), ir::Add(ctx, a, ctx.Idx(1))}) {
    Rewriter rewriter(ctx, rules);
    EXPECT_TRUE(rewriter.Run(ir::Add(ctx, u, b)));
    EXPECT_TRUE(rewriter.diverged());
    EXPECT_LE(rewriter.matches(), 2u);
    const auto status = Rewrite(ctx, u, rules, {.name = "mypass"}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_NE(StatusText(status).find(u.Is(Op::MUL) ? "last rules: pingpong.grow"
                                                    : "last rules: pingpong.ping, pingpong.pong"),
              std::string::npos)
        << StatusText(status);
    EXPECT_NE(StatusText(status).find("mypass"), std::string::npos);
  }
}

TEST_F(RewriteTest, EndlessGrowthStopsAtTheLimitAndNamesTheRules) {
  RuleSet rules("grow");
  rules.Add("more", x * c, x * (c + 1));
  rules.Freeze();
  Rewriter rewriter(ctx, rules, {.max_steps = 1000});
  EXPECT_TRUE(rewriter.Run(ir::Mul(ctx, a, ctx.Idx(2))));
  EXPECT_EQ(rewriter.matches(), 1000u);
  EXPECT_EQ(rewriter.status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(rewriter.last_rules(), std::vector<std::string>(20, "grow.more"));
  // It has stopped for good.
  const UOp other = ir::Mul(ctx, b, ctx.Idx(2));
  EXPECT_EQ(rewriter.Run(other), other);
}

// before: sees a node with its sources as they were; after: with its sources rewritten.
TEST_F(RewriteTest, BeforeRulesSeeTheSourcesUnchanged) {
  RuleSet after("after");
  after.Add("one_is_two", Literal(1), 2);
  after.Freeze();
  RuleSet before("before");
  before.Add("plus_one", x + 1, x * 1);
  before.Add("mul_to_sub", x * 1, x - 1);
  before.Freeze();
  const UOp in = ir::Mul(ctx, ir::Add(ctx, a, ctx.Idx(1)), b);
  // before, to its fixed point: a + 1 -> a * 1 -> a - 1; after: 1 -> 2.
  EXPECT_EQ(*Rewrite(ctx, in, after, {.before = &before}),
            ir::Mul(ctx, ir::Sub(ctx, a, ctx.Idx(2)), b));
  // The same rules after the sources never see a 1.
  RuleSet both("both");
  both.Include(after), both.Include(before);
  both.Freeze();
  EXPECT_EQ(*Rewrite(ctx, in, both), ir::Mul(ctx, ir::Add(ctx, a, ctx.Idx(2)), b));
  // A node that is new because its sources changed gets the rules before too.
  RuleSet two("two");
  two.Add("plus_two", x + 2, x);
  two.Freeze();
  EXPECT_EQ(*Rewrite(ctx, in, after, {.before = &two}), ir::Mul(ctx, a, b));
}

TEST_F(RewriteTest, AWalkUsesResultsAsTheyAre) {
  RuleSet rules("walk");
  rules.Add("next", x * c, x * (c + 1));
  rules.Freeze();
  RuleSet none("none");
  none.Freeze();
  const UOp inner = ir::Mul(ctx, a, ctx.Idx(3)), in = ir::Mul(ctx, inner, ctx.Idx(5));
  const UOp once = ir::Mul(ctx, ir::Mul(ctx, a, ctx.Idx(4)), ctx.Idx(6));
  EXPECT_EQ(*Rewrite(ctx, in, rules, {.walk = true}), once);
  // Before the sources: the result is not entered, so the inner node stays.
  EXPECT_EQ(*Rewrite(ctx, in, none, {.before = &rules, .walk = true}),
            ir::Mul(ctx, inner, ctx.Idx(6)));
}

TEST_F(RewriteTest, FinalResultsAreNeitherEnteredNorRewritten) {
  RuleSet before("gate");
  before.Add("stop", x - y, [](const auto& m) { return m.Final(m.root()); });
  before.Add("wrap", x ^ y,
             [](const auto& m) { return m.Final(ir::Mul(m.ctx, m.root(), m.ctx.Idx(1))); });
  before.Freeze();
  RuleSet rules("rules");
  rules.Add("one_is_two", Literal(1), 2);
  rules.Freeze();
  const UOp one = ir::Add(ctx, a, ctx.Idx(1)), two = ir::Add(ctx, a, ctx.Idx(2));
  const UOp stop = ir::Sub(ctx, one, b), wrap = ir::Alu(ctx, Op::XOR, {one, b});
  EXPECT_EQ(*Rewrite(ctx, ir::Mul(ctx, stop, one), rules, {.before = &before}),
            ir::Mul(ctx, stop, two));
  EXPECT_EQ(*Rewrite(ctx, ir::Add(ctx, wrap, one), rules, {.before = &before}),
            ir::Add(ctx, ir::Mul(ctx, wrap, ctx.Idx(1)), two));
  // The same as a predicate of the driver; the gated node itself is still rewritten.
  rules = RuleSet("again");
  rules.Add("one_is_two", Literal(1), 2);
  rules.Add("sub", x - y, x + y);
  rules.Freeze();
  const auto enter = [](UOp u) { return !u.Is(Op::SUB); };
  EXPECT_EQ(*Rewrite(ctx, ir::Mul(ctx, ir::Sub(ctx, ctx.Idx(1), a), one), rules, {.enter = enter}),
            ir::Mul(ctx, ir::Add(ctx, ctx.Idx(2), a), two));
}

TEST_F(RewriteTest, RulesReachTheUsersObject) {
  struct Numbers {
    int next = 0;
    absl::flat_hash_map<uint32_t, int> of;
  } numbers;
  RuleSet rules("number");
  rules.Add("variable", Node(Op::DEFINE_VAR), [](const auto& m) -> UOp {
    auto& user = m.template User<Numbers>();
    user.of[m.root().id()] = user.next++;
    return UOp();
  });
  rules.Freeze();
  RewriteOptions options;
  options.SetUser(&numbers);
  ASSERT_TRUE(Rewrite(ctx, ir::Add(ctx, b, ir::Add(ctx, a, b)), rules, options).ok());
  EXPECT_EQ(numbers.of.at(b.id()), 0);
  EXPECT_EQ(numbers.of.at(a.id()), 1);
  EXPECT_EQ(numbers.next, 2);
}

TEST_F(RewriteTest, DeepGraphsNeedNoStack) {
  RuleSet rules("deep");
  rules.Add("zero", x + 0, x);
  rules.Add("literal", Literal(7), 0);
  rules.Freeze();
  UOp u = a;
  for (int i = 0; i < 1'000'000; ++i) u = ir::Add(ctx, u, ctx.Idx(7));
  EXPECT_EQ(*Rewrite(ctx, u, rules), a);
}

// The dtype of the first source is part of the index: a rule of another dtype is not tried.
TEST_F(RewriteTest, RulesOfOtherDtypesAreNotTried) {
  RuleSet rules("dtypes");
  rules.Add("floats", x.Is(kFloats) + y, x);
  rules.Add("constants", (x + c) + d, x);
  rules.Add("indices", x + y, y, [](const auto& m) { return m.root().dtype() == Dtype::Index; });
  rules.Freeze();
  std::vector<uint64_t> attempts(3);
  EXPECT_EQ(rules.Apply(ir::Add(ctx, a, b), ctx, attempts.data()).result, b);
  EXPECT_EQ(attempts, (std::vector<uint64_t>{0, 0, 1}));
  const UOp f = ctx.Float(Dtype::F32, 1);
  const UOp g = ctx.Make(Op::ADD, Dtype::F32, {ctx.Make(Op::ADD, Dtype::F32, {f, f}), f});
  EXPECT_TRUE(rules.Apply(g, ctx, attempts.data()).result);
  EXPECT_EQ(attempts, (std::vector<uint64_t>{1, 0, 1}));
}

// So are the constants that patterns name, and whether two sources are one node.
TEST_F(RewriteTest, RulesOfOtherConstantsAndOfEqualSourcesAreNotTried) {
  RuleSet rules("constants");
  rules.Add("zero", x + 0, x);
  rules.Add("one", x + 1, x);
  rules.Add("minus_one", x + -1, x);
  rules.Add("seven", x + 7, x);
  rules.Add("self", x + x, x);
  rules.Add("any", x + c, x);
  rules.Freeze();
  auto first = [&](UOp p, UOp q) {  // the rules that were tried
    std::vector<uint64_t> attempts(6);
    rules.Apply(ctx.Make(Op::ADD, p.dtype(), {p, q}), ctx, attempts.data());
    std::string out;
    for (size_t i = 0; i < attempts.size(); ++i) {
      if (attempts[i] > 0)
        out += std::string(out.empty() ? "" : " ") + std::string(rules.rules()[i]->name);
    }
    return out;
  };
  EXPECT_EQ(first(a, ctx.Idx(0)), "zero");
  EXPECT_EQ(first(ctx.Idx(1), a), "one");
  EXPECT_EQ(first(a, ctx.Idx(-1)), "minus_one");
  EXPECT_EQ(first(a, ctx.Idx(7)), "seven");
  EXPECT_EQ(first(a, ctx.Idx(8)), "seven any");
  EXPECT_EQ(first(a, a), "self");
  EXPECT_EQ(first(a, b), "");
  const UOp f = ctx.Make(Op::CAST, Dtype::F32, {a});
  EXPECT_EQ(first(f, ctx.Float(Dtype::F32, 0)), "zero");
  EXPECT_EQ(first(f, ctx.Float(Dtype::F32, -0.0)), "zero");
  EXPECT_EQ(first(ctx.Float(Dtype::F32, -1), f), "minus_one");
  EXPECT_EQ(first(f, ctx.Float(Dtype::F32, 1)), "one");
  EXPECT_EQ(first(f, ctx.Float(Dtype::F32, NAN)), "seven");
}

TEST_F(RewriteTest, RulesKnowWhereTheyAreWritten) {
  RuleSet rules("where");
  rules.Add("here", x + 0, x);
  rules.Freeze();
  EXPECT_EQ(SourcePath(rules.rules()[0]->where.file_name()),
            "tests/unit/core/rewrite/rewriter_test.cc");
  EXPECT_EQ(rules.rules()[0]->where.line(), static_cast<unsigned>(__LINE__ - 4));
}

TEST_F(RewriteTest, CountsReachTheMetrics) {
  const uint64_t before = metrics::PatternMatches({"counted"}).value();
  RuleSet rules("counted");
  rules.Add("zero", x + 0, x);
  rules.Freeze();
  EXPECT_EQ(*Rewrite(ctx, ir::Add(ctx, a, ctx.Idx(0)), rules), a);
  EXPECT_EQ(metrics::PatternMatches({"counted"}).value(), before + 1);
}

TEST_F(RewriteTest, CountsReachTheTable) {
  RuleSet rules("tabled");
  rules.Add("zero", x + 0, x);
  rules.Add("never", x - y, [](const auto&) { return UOp(); });
  rules.Freeze();
  ASSERT_TRUE(Rewrite(ctx, ir::Sub(ctx, ir::Add(ctx, a, ctx.Idx(0)), b), rules).ok());
  std::vector<RuleStats> mine;
  for (const RuleStats& s : MatchStats()) {
    if (s.set == "tabled") mine.push_back(s);
  }
  ASSERT_EQ(mine.size(), 2u);
  std::sort(mine.begin(), mine.end(), [](const auto& p, const auto& q) { return p.name > q.name; });
  EXPECT_EQ(mine[0].attempts, 1u);
  EXPECT_EQ(mine[0].matches, 1u);
  EXPECT_EQ(mine[1].attempts, 1u);
  EXPECT_EQ(mine[1].matches, 0u);
  const std::string table = MatchStatsTable();
  EXPECT_NE(table.find("tabled.zero  tests/unit/core/rewrite/rewriter_test.cc:"), std::string::npos)
      << table;
  EXPECT_NE(table.substr(table.find("never matched:")).find("tabled.never"), std::string::npos);
}

TEST_F(RewriteTest, StatisticsHaveASeriesForEachRule) {
  RuleSet rules("series");
  rules.Add("zero", x + 0, x);
  rules.Freeze();
  MutableDebug().track_match_stats = 1;
  ASSERT_TRUE(Rewrite(ctx, ir::Add(ctx, a, ctx.Idx(0)), rules).ok());
  MutableDebug().track_match_stats = 0;
  EXPECT_EQ(metrics::RuleAttempts({"series", "zero"}).value(), 1u);
  EXPECT_EQ(metrics::RuleMatches({"series", "zero"}).value(), 1u);
  const double seconds = metrics::RuleTime({"series", "zero"}).seconds();
  EXPECT_GT(seconds, 0);
  // Without the flag only the matches are counted.
  ASSERT_TRUE(Rewrite(ctx, ir::Add(ctx, ir::Add(ctx, a, a), ctx.Idx(0)), rules).ok());
  EXPECT_EQ(metrics::RuleAttempts({"series", "zero"}).value(), 1u);
  EXPECT_EQ(metrics::RuleMatches({"series", "zero"}).value(), 2u);
  EXPECT_EQ(metrics::RuleTime({"series", "zero"}).seconds(), seconds);
}

TEST_F(RewriteTest, TheLimitStopsAfterThatManyRewritesAndNamesTheLast) {
  RuleSet rules("limited");
  rules.Add("zero", x + 0, x);
  rules.Freeze();
  UOp u = a;
  const UOp zero = ctx.Idx(0);
  std::vector<UOp> chain = {a};
  for (int i = 0; i < 10; ++i) chain.push_back(u = ir::Add(ctx, ir::Mul(ctx, u, b), zero));
  MutableDebug().rewrite_limit = 3;
  ::testing::internal::CaptureStderr();
  Rewriter first(ctx, rules);
  const UOp out = first.Run(chain[5]);
  EXPECT_EQ(first.matches(), 3u);
  EXPECT_TRUE(first.status().ok());
  EXPECT_NE(out, chain[5]);
  Rewriter second(ctx, rules);  // the limit is that of the process
  EXPECT_EQ(second.Run(chain[9]), chain[9]);
  const std::string text = ::testing::internal::GetCapturedStderr();
  MutableDebug().rewrite_limit = -1;
  EXPECT_NE(text.find("REWRITE_LIMIT (3) is reached; the last rewrite is\nlimited.zero  "
                      "tests/unit/core/rewrite/rewriter_test.cc:"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\n    (((a*b)*b)*b)+0\n -> ((a*b)*b)*b\n"), std::string::npos) << text;
}

TEST_F(RewriteTest, EveryRewriteCanBePrinted) {
  RuleSet rules("printed");
  rules.Add("zero", x + 0, x);
  rules.Freeze();
  PrintEveryRewrite(true);
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(Rewrite(ctx, ir::Mul(ctx, ir::Add(ctx, a, ctx.Idx(0)), b), rules).ok());
  PrintEveryRewrite(false);
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(text.starts_with("printed.zero  tests/unit/")) << text;
  EXPECT_TRUE(text.ends_with("\n    a+0\n -> a\n")) << text;
}

// Death tests run in a process of their own, where the flags are read anew.
void FreezeWithDisabledRules() {
  MutableDebug().disable_rules = "set.one,set.typo,nodot,all.*,nowhere.rule";
  RuleSet rules("set"), all("all");
  rules.Add("one", x + 0, x);
  rules.Add("two", x * 1, x);
  all.Add("three", x - x, 0);
  all.Include(rules);
  rules.Freeze(), all.Freeze();
  const bool good = rules.rules().size() == 1 && rules.rules()[0]->name == "two" &&
                    all.rules().size() == 1 && all.rules()[0]->name == "two";
  std::exit(good ? 0 : 1);
}

TEST(RewriteDeathTest, DisabledRulesAreLeftOutAndUnknownOnesReported) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(FreezeWithDisabledRules(), ::testing::ExitedWithCode(0),
              "rule=nodot(.|\n)*rule=set.typo(.|\n)*rule=nowhere.rule");
}

void RewriteWithABadRule() {
  MutableDebug().spec = 2;
  UOpContext ctx;
  RuleSet rules("bad");
  rules.Add("wrong_dtype", x + 0, [x = x](const auto& m) {
    return m.ctx.Make(Op::ADD, Dtype::F32, {m[x], m.ctx.Idx(1)});
  });
  rules.Freeze();
  (void)Rewrite(ctx, ir::Add(ctx, ir::Variable(ctx, "v", 0, 5), ctx.Idx(0)), rules);
}

TEST(RewriteDeathTest, ACheckedNodeNamesTheRuleThatMadeIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(RewriteWithABadRule(), ::testing::KilledBySignal(SIGABRT),
              "SPEC=2: a new node is wrong: ADD of index gives index, not f32(.|\n)*ADD<f32>(.|\n)*"
              "of DEFINE_VAR<index> .0, 5, .v(.|\n)*made by rule wrong_dtype, in set bad");
}

}  // namespace
}  // namespace uopd::rewrite
