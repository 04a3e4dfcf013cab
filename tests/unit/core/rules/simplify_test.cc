// SPDX-License-Identifier: MIT
#include "core/rules/simplify.h"

#include <gtest/gtest.h>

#include <random>

#include "core/ir/analysis/eval.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/rewrite/rewriter.h"
#include "core/rules/rules.h"

namespace uopd::rules {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;
using ir::UOpContext;

class SimplifyTest : public ::testing::Test {
 protected:
  UOp R(int64_t size, int64_t id) { return ir::Range(ctx, ctx.Idx(size), id, ir::AxisType::LOOP); }
  UOp C(int64_t v) { return ctx.Idx(v); }
  UOp Div(UOp a, int64_t c) { return ir::Alu(ctx, Op::FLOORDIV, {a, C(c)}); }
  UOp Mod(UOp a, int64_t c) { return ir::Alu(ctx, Op::FLOORMOD, {a, C(c)}); }
  UOp Add(UOp a, UOp b) { return ir::Add(ctx, a, b); }
  UOp Mul(UOp a, int64_t c) { return ir::Mul(ctx, a, C(c)); }
  void Expect(UOp in, UOp want) {
    const UOp out = Simplify(ctx, in);
    EXPECT_EQ(out, want) << "from\n"
                         << ir::Print(ctx, in) << "got\n"
                         << ir::Print(ctx, out) << "want\n"
                         << ir::Print(ctx, want);
  }
  UOpContext ctx;
};

TEST_F(SimplifyTest, ReshapeIndicesDissolve) {
  const UOp i = R(3, 0), j = R(28, 1), k = R(28, 2);
  const UOp flat = Add(Add(Mul(i, 784), Mul(j, 28)), k);
  Expect(Div(flat, 784), i);
  Expect(Mod(Div(flat, 28), 28), j);
  Expect(Mod(flat, 28), k);
  Expect(Div(Mod(flat, 784), 28), j);
}

TEST_F(SimplifyTest, DivisionNestsAndRecombines) {
  const UOp a = R(10, 0), b = R(3, 1), x = R(1000, 2);
  Expect(Div(Add(Mul(a, 3), b), 6), Div(a, 2));
  Expect(Div(Div(x, 3), 5), Div(x, 15));
  Expect(Add(Mul(Div(x, 7), 7), Mod(x, 7)), x);
  Expect(Add(Mod(x, 7), Mul(Mod(Div(x, 7), 5), 7)), Mod(x, 35));
  Expect(Mod(Mod(x, 12), 4), Mod(x, 4));
}

TEST_F(SimplifyTest, ComparisonsMoveConstantsAndUseBounds) {
  const UOp x = R(10, 0);
  Expect(ir::Lt(ctx, Add(x, C(3)), C(20)), ctx.Bool(true));
  Expect(ir::Lt(ctx, Add(x, C(3)), C(2)), ctx.Bool(false));
  Expect(ir::Lt(ctx, Add(x, C(3)), C(5)), ir::Lt(ctx, x, C(2)));
  Expect(ir::Lt(ctx, Mul(x, 4), C(9)), ir::Lt(ctx, x, C(3)));
  Expect(ir::Lt(ctx, Div(x, 4), C(2)), ir::Lt(ctx, x, C(8)));
}

TEST_F(SimplifyTest, FloatsKeepIeeeResults) {
  const UOp p = ir::Param(ctx, 0, Dtype::F32, ir::ShapeArg(ctx, std::initializer_list<UOp>{C(4)}));
  const UOp x = ir::Load(ctx, ir::Index(ctx, p, R(4, 0)));
  for (UOp same :
       {ir::Add(ctx, x, ctx.Float(Dtype::F32, 0.0)), ir::Mul(ctx, x, ctx.Float(Dtype::F32, 0.0)),
        ir::Sub(ctx, x, x), ir::Alu(ctx, Op::CMPNE, {x, x}), ir::Alu(ctx, Op::FDIV, {x, x})}) {
    Expect(same, same);
  }
  Expect(ir::Sub(ctx, x, ctx.Float(Dtype::F32, 0.0)), x);
  Expect(ir::Mul(ctx, x, ctx.Float(Dtype::F32, 1.0)), x);
}

TEST_F(SimplifyTest, MaximaLoseWhatTheirSidesHaveInCommon) {
  const UOp x = R(10, 0), y = R(10, 1), z = R(5, 2);
  const UOp least = ir::Alu(ctx, Op::MAX, {x, y});
  auto max = [&](UOp a, UOp b) { return ir::Alu(ctx, Op::MAX, {a, b}); };
  Expect(max(Add(x, z), Add(y, z)), Add(least, z));
  Expect(max(Add(x, z), z), Simplify(ctx, Add(x, z)));
  Expect(max(Mul(x, 6), Mul(y, 6)), Mul(least, 6));
  Expect(max(Add(x, C(-7)), Add(y, C(-7))), Add(least, C(-7)));
  Expect(max(Add(x, C(3)), C(5)), max(Add(x, C(3)), C(5)));
  Expect(ir::Lt(ctx, max(x, C(4)), C(6)), ir::Lt(ctx, x, C(6)));
  Expect(ir::Alu(ctx, Op::CMPNE, {max(x, C(4)), C(6)}), ir::Alu(ctx, Op::CMPNE, {x, C(6)}));
  // What leaves has to fit 64 bits on its own.
  const UOp large = ir::Variable(ctx, "large", INT64_MAX - 20, INT64_MAX - 9);
  const UOp sides = max(Add(large, x), Add(large, C(-1)));
  EXPECT_TRUE(ctx.BoundsOf(Simplify(ctx, sides)).Within(ctx.BoundsOf(sides)));
}

TEST_F(SimplifyTest, EndsOfIntervalsJoinAndLeave) {
  const UOp x = R(10, 0), y = R(10, 1);
  auto with = [&](Op op, UOp a, Op compare, UOp b, UOp c) {
    return ir::Alu(ctx, op, {a, ir::Alu(ctx, compare, {b, c})});
  };
  Expect(with(Op::OR, ir::Lt(ctx, x, C(5)), Op::CMPEQ, x, C(5)), ir::Lt(ctx, x, C(6)));
  Expect(with(Op::AND, ir::Lt(ctx, x, C(5)), Op::CMPNE, x, C(4)), ir::Lt(ctx, x, C(4)));
  const UOp from = ir::Not(ctx, ir::Lt(ctx, x, C(5)));
  Expect(with(Op::OR, from, Op::CMPEQ, x, C(4)), ir::Not(ctx, ir::Lt(ctx, x, C(4))));
  Expect(with(Op::AND, from, Op::CMPNE, x, C(5)), ir::Not(ctx, ir::Lt(ctx, x, C(6))));
  const UOp less = ir::Lt(ctx, x, y);
  Expect(with(Op::OR, less, Op::CMPEQ, y, x), Simplify(ctx, ir::Lt(ctx, x, Add(y, C(1)))));
  // Neither next to the end, nor the same sum.
  for (UOp other :
       {with(Op::OR, less, Op::CMPEQ, y, Add(x, C(-1))), with(Op::OR, less, Op::CMPEQ, y, R(10, 2)),
        with(Op::OR, ir::Lt(ctx, x, C(5)), Op::CMPEQ, x, C(6))}) {
    const UOp out = Simplify(ctx, other);
    EXPECT_TRUE(out.Is(Op::OR)) << ir::Print(ctx, out);
  }
}

// A value that is one of two has a linear remainder, by whichever residue of its factor.
TEST_F(SimplifyTest, RemaindersOfTwoValuesAreLinear) {
  for (int64_t c : {2, 6, 7, 12}) {
    for (int64_t factor = -2 * c; factor <= 2 * c; ++factor) {
      for (int64_t constant = 0; constant < c; ++constant) {
        const UOp x = R(2, 0), sum = Add(Mul(x, factor), C(constant));
        for (UOp out : {Simplify(ctx, Mod(sum, c)), Simplify(ctx, Div(sum, c))}) {
          EXPECT_FALSE(out.Is(Op::FLOORMOD) || out.Is(Op::FLOORDIV))
              << factor << " * x + " << constant << " by " << c << "\n"
              << ir::Print(ctx, out);
        }
      }
    }
  }
}

TEST_F(SimplifyTest, MultiplesOfASizeDivide) {
  const UOp n = ir::Variable(ctx, "n", 1, 64), i = R(8, 0), k = R(4, 2);
  const UOp j = ir::Range(ctx, n, 1, ir::AxisType::LOOP), row = Mul(n, 4);
  auto by = [&](Op op, UOp x, UOp y) { return ir::Alu(ctx, op, {x, y}); };
  const UOp flat = Add(Add(ir::Mul(ctx, i, row), Mul(j, 4)), k);
  Expect(by(Op::FLOORDIV, flat, row), i);
  Expect(by(Op::FLOORMOD, flat, row), Add(Mul(j, 4), k));
  const UOp other = Add(ir::Mul(ctx, i, n), j);
  Expect(by(Op::FLOORDIV, other, row), Div(i, 4));
  Expect(by(Op::FLOORDIV, Div(other, 4), n), Div(i, 4));
  // A size that may be zero divides nothing: x / 0 is 0.
  const UOp none = ir::Variable(ctx, "none", 0, 64);
  const UOp product = ir::Mul(ctx, i, Mul(none, 4));
  EXPECT_TRUE(Simplify(ctx, by(Op::FLOORDIV, product, Mul(none, 4))).Is(Op::FLOORDIV));
}

// s == [s < 1] and s >= 1, where each part says what the other one is.
TEST_F(SimplifyTest, AConditionAsANumberIsNotWhatItIsReplacedBy) {
  const UOp s = Add(ir::Variable(ctx, "c", -3, 8), Mul(R(9, 1), 2)), less = ir::Lt(ctx, s, C(1));
  const UOp equal = ir::Alu(ctx, Op::CMPEQ, {s, ir::Cast(ctx, less, Dtype::Index)});
  rewrite::Rewriter rewriter(ctx, SymbolicRules(), {.max_steps = 1000});
  rewriter.Run(ir::And(ctx, equal, ir::Not(ctx, less)));
  EXPECT_FALSE(rewriter.diverged());
}

// Random integer expressions over small ranges: equal value everywhere, and inside the bounds that
// were promised.
TEST_F(SimplifyTest, RandomIndexExpressionsAgreeWithBruteForce) {
  std::mt19937_64 random(1);
  auto pick = [&](int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(random() % static_cast<uint64_t>(hi - lo + 1));
  };
  for (int round = 0; round < 3000; ++round) {
    UOpContext local;
    std::vector<UOp> vars, pool, bools;
    for (int i = 0; i < 3; ++i)
      vars.push_back(
          ir::Variable(local, std::string(1, static_cast<char>('a' + i)), pick(-7, 0), pick(0, 9)));
    pool = vars;
    for (int step = 0; step < 9; ++step) {
      auto any = [&] {
        return pool[static_cast<size_t>(pick(0, static_cast<int64_t>(pool.size()) - 1))];
      };
      auto constant = [&](int64_t lo, int64_t hi) { return local.Idx(pick(lo, hi)); };
      switch (pick(0, 9)) {
        case 0:
          pool.push_back(ir::Add(local, any(), any()));
          break;
        case 1:
          pool.push_back(ir::Sub(local, any(), any()));
          break;
        case 2:
          pool.push_back(ir::Mul(local, any(), constant(-5, 6)));
          break;
        case 3:
          pool.push_back(ir::Add(local, any(), constant(-20, 20)));
          break;
        case 4:
          pool.push_back(ir::Alu(local, Op::FLOORDIV, {any(), constant(1, 8)}));
          break;
        case 5:
          pool.push_back(ir::Alu(local, Op::FLOORMOD, {any(), constant(1, 8)}));
          break;
        case 6:
          pool.push_back(ir::Alu(local, Op::MAX, {any(), any()}));
          break;
        case 7:
          bools.push_back(ir::Lt(local, any(), pick(0, 1) ? any() : constant(-9, 9)));
          break;
        case 8:
          pool.push_back(ir::Alu(local, pick(0, 1) ? Op::FLOORDIV : Op::FLOORMOD,
                                 {any(), pick(0, 1) ? any() : constant(-5, 5)}));
          break;
        default:
          if (!bools.empty()) {
            UOp c = bools[static_cast<size_t>(pick(0, static_cast<int64_t>(bools.size()) - 1))];
            if (bools.size() > 1) c = ir::Alu(local, pick(0, 1) ? Op::AND : Op::OR, {c, bools[0]});
            pool.push_back(ir::Where(local, pick(0, 1) ? c : ir::Not(local, c), any(), any()));
          }
      }
    }
    const UOp before = bools.empty() || pick(0, 2) ? pool.back() : bools.back();
    rewrite::Rewriter rewriter(local, SymbolicRules(), {.max_steps = 10000});
    const UOp after = rewriter.Run(before);
    ASSERT_FALSE(rewriter.diverged())
        << ::testing::PrintToString(rewriter.last_rules()) << ir::Print(local, before);
    const ir::Bounds bounds = local.BoundsOf(after), wide = local.BoundsOf(before);
    auto value = [&](UOp root, const std::vector<int64_t>& at) {
      std::vector<ir::Scalar> values(local.size());
      for (UOp u : ir::Toposort(local, root)) {
        std::vector<ir::Scalar> operands;
        for (UOp s : u.srcs()) operands.push_back(values[s.id()]);
        if (u.Is(Op::CONST))
          values[u.id()] = ir::Scalar::Of(u);
        else if (u.Is(Op::DEFINE_VAR))
          values[u.id()] =
              ir::Scalar::Int(Dtype::Index, at[static_cast<size_t>(u.text()[0] - 'a')]);
        else
          values[u.id()] = *ir::EvalAlu(u.op(), u.dtype(), operands);
      }
      return values[root.id()].i;
    };
    for (int trial = 0; trial < 40; ++trial) {
      std::vector<int64_t> at;
      for (UOp v : vars)
        at.push_back(trial == 0   ? v.ints()[0]
                     : trial == 1 ? v.ints()[1]
                                  : pick(v.ints()[0], v.ints()[1]));
      const int64_t want = value(before, at), got = value(after, at);
      ASSERT_EQ(got, want) << "round " << round << "\n"
                           << ir::Print(local, before) << "became\n"
                           << ir::Print(local, after);
      ASSERT_TRUE(bounds.min <= got && got <= bounds.max && wide.min <= got && got <= wide.max)
          << "round " << round << " value " << got << "\n"
          << ir::Print(local, before);
    }
    EXPECT_EQ(Simplify(local, after), after) << "not idempotent:\n" << ir::Print(local, after);
  }
}

}  // namespace
}  // namespace uopd::rules
