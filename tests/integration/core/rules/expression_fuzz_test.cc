// SPDX-License-Identifier: MIT
// Random integer expressions: SymbolicRules change no value, and every value lies within the bounds
// that were promised, before and after. Every point of small spaces is tried, many random ones and
// all corners of large ones. The reference is ir::EvalAlu. What is simplified already stays as it
// is.
//
// UOPD_FUZZ_EXPRESSIONS sets how many, UOPD_FUZZ_SEED the first seed; one expression per seed.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/ir/analysis/eval.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/rewrite/rewriter.h"
#include "core/rules/given.h"
#include "core/rules/rules.h"
#include "tests/support/environment.h"
#include "tests/support/index_expressions.h"

namespace uopd::rules {
namespace {

using ir::Dtype;
using ir::Op;
using ir::Scalar;
using ir::UOp;
using ir::UOpContext;
using test::IndexExpressions;

// The value of roots at a point, and that every index and stored integer below lies in its bounds.
class Evaluator {
 public:
  Evaluator(UOpContext& ctx, UOp root) : root_(root), order_(ir::Toposort(ctx, root)) {
    for (UOp u : order_) bounds_.push_back(ctx.BoundsOf(u));
    values_.resize(ctx.size());
  }
  Scalar At(const std::vector<UOp>& leaves, const std::vector<int64_t>& at, UOp& maybe_outside) {
    for (size_t i = 0; i < leaves.size(); ++i)
      if (leaves[i].id() < values_.size())
        values_[leaves[i].id()] = Scalar::Int(Dtype::Index, at[i]);
    Scalar operands[3];
    for (size_t k = 0; k < order_.size(); ++k) {
      const UOp u = order_[k];
      if (u.Is(Op::CONST)) {
        values_[u.id()] = Scalar::Of(u);
      } else if (!u.Is(Op::RANGE) && !u.Is(Op::DEFINE_VAR)) {
        for (size_t i = 0; i < u.n_src(); ++i) operands[i] = values_[u.src(i).id()];
        values_[u.id()] = *ir::EvalAlu(u.op(), u.dtype(), std::span(operands, u.n_src()));
      }
      const ir::Int128 v = values_[u.id()].wide();
      if (v < bounds_[k].min || v > bounds_[k].max) maybe_outside = u;
    }
    return values_[root_.id()];
  }

 private:
  UOp root_;
  std::vector<UOp> order_;
  std::vector<ir::Bounds> bounds_;
  std::vector<Scalar> values_;
};

void CheckOne(uint64_t seed, IndexExpressions::Profile profile) {
  UOpContext ctx;
  IndexExpressions g(ctx, seed, profile);
  const UOp before = g.Root();
  rewrite::Rewriter rewriter(ctx, SymbolicRules(), {.max_steps = 20000});
  const UOp after = rewriter.Run(before);
  ASSERT_FALSE(rewriter.diverged())
      << ::testing::PrintToString(rewriter.last_rules()) << ir::Print(ctx, before);
  auto text = [&] { return ir::Print(ctx, before) + "became\n" + ir::Print(ctx, after); };
  const ir::IntRange full = ir::RangeOf(Dtype::Index);
  for (UOp u : ir::Toposort(ctx, after)) {
    if (u.dtype() != Dtype::Index) continue;
    ASSERT_TRUE(ctx.BoundsOf(u).Within({full.min, full.max})) << "an index leaves 64 bits\n"
                                                              << text();
  }
  ASSERT_EQ(after.dtype(), before.dtype()) << text();
  Evaluator old_value(ctx, before), new_value(ctx, after);
  ir::Int128 space = 1;
  for (UOp leaf : g.leaves()) {
    const ir::Bounds b = ctx.BoundsOf(leaf);
    space = std::min<ir::Int128>(space * (b.max - b.min + 1), 1 << 20);
  }
  constexpr int kAll = 600, kSome = 120;
  const bool all = space <= kAll;
  std::vector<int64_t> at = g.Point(0);  // the lowest corner
  const std::vector<int64_t> lowest = at;
  for (uint64_t trial = 0; all || trial < kSome; ++trial) {
    if (!all) at = g.Point(trial);
    UOp outside;
    std::vector<int64_t> here = at;
    g.MakePossible(here);
    const Scalar want = old_value.At(g.leaves(), here, outside);
    const Scalar got = new_value.At(g.leaves(), here, outside);
    ASSERT_EQ(got, want) << want.i << " became " << got.i << " at "
                         << ::testing::PrintToString(here) << "\n"
                         << text();
    ASSERT_FALSE(outside) << "a value outside its bounds at " << ::testing::PrintToString(here)
                          << ": " << ir::Print(ctx, outside) << text();
    if (!all) continue;
    size_t i = 0;
    for (; i < at.size(); ++i) {
      if (at[i] < static_cast<int64_t>(ctx.BoundsOf(g.leaves()[i]).max)) break;
      at[i] = lowest[i];
    }
    if (i == at.size()) break;
    ++at[i];
  }
  rewrite::Rewriter again(ctx, SymbolicRules(), {.max_steps = 20000});
  ASSERT_EQ(again.Run(after), after) << "not idempotent:\n" << text();
}

// Calls check(seed) for as many seeds as were asked for, until one fails.
template <class F>
void ForEachSeed(int64_t usual, F check) {
  const int64_t n = test::FromEnvironment("UOPD_FUZZ_EXPRESSIONS", usual);
  const int64_t start = test::FromEnvironment("UOPD_FUZZ_SEED", 0);
  for (int64_t seed = start; seed < start + n; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    check(static_cast<uint64_t>(seed));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(ExpressionFuzz, RulesKeepValuesAndBounds) {
  ForEachSeed(10000, [](uint64_t seed) { CheckOne(seed, IndexExpressions::kMixed); });
}
TEST(ExpressionFuzz, RulesKeepConditions) {
  ForEachSeed(10000, [](uint64_t seed) { CheckOne(seed, IndexExpressions::kConditions); });
}
TEST(ExpressionFuzz, RulesKeepValuesNearTheEndsOf64Bits) {
  ForEachSeed(10000, [](uint64_t seed) { CheckOne(seed, IndexExpressions::kLimits); });
}

TEST(ExpressionFuzz, RulesKeepWhatIsDividedBySizes) {
  ForEachSeed(10000, [](uint64_t seed) { CheckOne(seed, IndexExpressions::kSizes); });
}

// What is foreseen not to help does not help.
TEST(ExpressionFuzz, ForesightLosesNothing) {
  ForEachSeed(10000, [](uint64_t seed) {
    UOpContext ctx;
    const auto profile = seed % 4 == 0 ? IndexExpressions::kMixed : IndexExpressions::kConditions;
    IndexExpressions g(ctx, seed, profile);
    // A loop of one step, which has to stay one, is a number to what is tried whatever is known.
    for (UOp leaf : g.leaves()) {
      if (ctx.BoundsOf(leaf).IsPoint()) return;
    }
    rewrite::Rewriter rewriter(ctx, SymbolicRules(), {.max_steps = 20000});
    const UOp condition = rewriter.Run(g.Condition());
    const UOp e = rewriter.Run(g.Chance(3) ? g.Condition() : g.Number());
    const bool holds = !g.Chance(3);
    const UOp foreseen = SimplifyGiven(ctx, e, condition, holds);
    const UOp tried = SimplifyGiven(ctx, e, condition, holds, Foresee::kNo);
    ASSERT_EQ(foreseen, tried) << ir::Print(ctx, e) << "given that this "
                               << (holds ? "holds" : "does not hold") << "\n"
                               << ir::Print(ctx, condition) << "becomes\n"
                               << (tried ? ir::Print(ctx, tried) : "nothing") << "and foreseen\n"
                               << (foreseen ? ir::Print(ctx, foreseen) : "nothing");
  });
}

}  // namespace
}  // namespace uopd::rules
