// SPDX-License-Identifier: MIT
// Random expressions of floats, stored integers and conditions: SymbolicRules keep every result bit
// for bit, up to which NaN it is, for special values too. With fast math results may differ; but
// that ends as well, and what is simplified already stays as it is. The reference is ir::EvalAlu.
//
// UOPD_FUZZ_EXPRESSIONS sets how many, UOPD_FUZZ_SEED the first seed; one expression per seed.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "core/ir/analysis/eval.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/rewrite/rewriter.h"
#include "core/rules/rules.h"
#include "tests/support/environment.h"

namespace uopd::rules {
namespace {

using ir::Dtype;
using ir::Op;
using ir::Scalar;
using ir::UOp;
using ir::UOpContext;

class FloatExpressions {
 public:
  FloatExpressions(UOpContext& ctx, uint64_t seed)
      : ctx_(ctx), random_(seed * 0x9E3779B97F4A7C15u + 1) {
    constexpr Dtype kFloat[] = {Dtype::F32, Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16};
    constexpr Dtype kInt[] = {Dtype::I32, Dtype::U8, Dtype::I64};
    float_ = kFloat[Pick(0, 4)], int_ = kInt[Pick(0, 2)];
    const UOp shape = ctx.Make(Op::STACK, Dtype::Index, std::span<const UOp>{});
    auto leaf = [&](Dtype d) {
      leaves_.push_back(ir::Param(ctx, static_cast<int64_t>(leaves_.size()), d, shape));
      return leaves_.back();
    };
    for (int i = 0; i < 3; ++i) floats_.push_back(leaf(float_));
    for (int i = 0; i < 2; ++i) ints_.push_back(leaf(int_)), bools_.push_back(leaf(Dtype::Bool));
    const int64_t steps = Pick(3, 16);
    for (int64_t i = 0; i < steps; ++i) Step();
  }

  UOp Root() {
    const int64_t kind = Pick(0, 5);
    return kind == 0 ? bools_.back() : kind == 1 ? ints_.back() : floats_.back();
  }
  const std::vector<UOp>& leaves() const { return leaves_; }

  Scalar Value(Dtype d) {
    if (!ir::IsFloat(d)) {
      const ir::IntRange r = ir::RangeOf(d);
      return Scalar::Int(d, Chance(5) ? r.min : Chance(5) ? r.max : ir::Int128{Pick(-9, 9)});
    }
    constexpr double kInf = std::numeric_limits<double>::infinity();
    constexpr double kSpecial[] = {0.0,   -0.0, 1.0,  -1.0,  2.0,      0.5,   kInf,
                                   -kInf, NAN,  1e30, 1e-30, -65504.0, 1e-45, 3.0};
    return Scalar::Float(
        d, Chance(2) ? kSpecial[Pick(0, 13)] : static_cast<double>(Pick(-4000, 4000)) / 64);
  }

 private:
  int64_t Pick(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(random_() % static_cast<uint64_t>(hi - lo + 1));
  }
  bool Chance(int64_t n) { return Pick(1, n) == 1; }
  // Recent ones more often, so that the expressions get deep.
  UOp Any(const std::vector<UOp>& pool) {
    const auto n = static_cast<int64_t>(pool.size());
    return pool[static_cast<size_t>(Chance(2) ? Pick(0, n - 1)
                                              : Pick(std::max<int64_t>(0, n - 3), n - 1))];
  }
  UOp Number(Dtype d) {
    const Scalar v = Value(d);
    return ir::IsFloat(d) ? ctx_.Float(d, v.f) : ctx_.Int(d, v.wide());
  }
  UOp Operand(Dtype d) { return Chance(3) ? Number(d) : Any(ir::IsFloat(d) ? floats_ : ints_); }

  void Step() {
    const Dtype d = Chance(3) ? int_ : float_;
    std::vector<UOp>& pool = ir::IsFloat(d) ? floats_ : ints_;
    switch (Pick(0, 9)) {
      case 0: {
        constexpr Op kCompare[] = {Op::CMPLT, Op::CMPLT, Op::CMPNE, Op::CMPEQ};
        const UOp a = Operand(d), b = Operand(d);
        bools_.push_back(ir::Alu(ctx_, kCompare[Pick(0, 3)], {a, b}));
        if (Chance(3)) {  // less or equal
          const UOp less = ir::Lt(ctx_, a, b), equal = ir::Alu(ctx_, Op::CMPEQ, {a, b});
          bools_.push_back(ir::Alu(ctx_, Op::OR, {less, equal}));
        }
        return;
      }
      case 1: {
        constexpr Op kLogic[] = {Op::AND, Op::OR, Op::XOR, Op::CMPNE, Op::MAX};
        const UOp a = Any(bools_), b = Any(bools_);
        bools_.push_back(Chance(3) ? ir::Not(ctx_, a) : ir::Alu(ctx_, kLogic[Pick(0, 4)], {a, b}));
        return;
      }
      case 2:
      case 3:
        pool.push_back(ir::Where(ctx_, Any(bools_), Operand(d), Operand(d)));
        return;
      case 4: {
        constexpr Op kUnary[] = {Op::NEG, Op::NEG, Op::RECIPROCAL, Op::TRUNC, Op::EXP2, Op::SQRT};
        pool.push_back(ir::Alu(ctx_, ir::IsFloat(d) ? kUnary[Pick(0, 5)] : Op::NEG, {Any(pool)}));
        return;
      }
      case 5: {
        const Dtype from = Chance(2) ? Dtype::Bool : ir::IsFloat(d) ? int_ : float_;
        const UOp x = from == Dtype::Bool ? Any(bools_) : Any(ir::IsFloat(from) ? floats_ : ints_);
        pool.push_back(ir::Cast(ctx_, x, d));
        return;
      }
      case 6:  // there and perhaps back
        if (Chance(2))
          bools_.push_back(ir::Cast(ctx_, Any(pool), Dtype::Bool));
        else
          pool.push_back(
              ir::Cast(ctx_, ir::Cast(ctx_, Any(pool), Chance(2) ? Dtype::F32 : Dtype::I16), d));
        return;
      default: {
        constexpr Op kFloatOps[] = {Op::ADD, Op::MUL, Op::SUB, Op::FDIV, Op::MAX, Op::POW};
        constexpr Op kIntOps[] = {Op::ADD,      Op::MUL, Op::SUB, Op::MAX, Op::FLOORDIV,
                                  Op::FLOORMOD, Op::AND, Op::OR,  Op::XOR, Op::CDIV};
        const Op op = ir::IsFloat(d) ? kFloatOps[Pick(0, 5)] : kIntOps[Pick(0, 9)];
        const UOp a = Any(pool), b = Operand(d);
        pool.push_back(Chance(4) ? ir::Alu(ctx_, op, {b, a}) : ir::Alu(ctx_, op, {a, b}));
      }
    }
  }

  UOpContext& ctx_;
  std::mt19937_64 random_;
  Dtype float_ = Dtype::F32, int_ = Dtype::I32;
  std::vector<UOp> leaves_, floats_, ints_, bools_;
};

Scalar Evaluate(const UOpContext& ctx, UOp root, const std::vector<UOp>& leaves,
                const std::vector<Scalar>& at) {
  std::vector<Scalar> values(ctx.size());
  for (size_t i = 0; i < leaves.size(); ++i) values[leaves[i].id()] = at[i];
  Scalar operands[3];
  for (UOp u : ir::Toposort(ctx, root)) {
    if (u.Is(Op::CONST)) {
      values[u.id()] = Scalar::Of(u);
    } else if (u.Is(ir::kElementwiseOps)) {
      for (size_t i = 0; i < u.n_src(); ++i) operands[i] = values[u.src(i).id()];
      values[u.id()] = *ir::EvalAlu(u.op(), u.dtype(), std::span(operands, u.n_src()));
    }
  }
  return values[root.id()];
}

bool Same(const Scalar& a, const Scalar& b) {
  if (a.dtype != b.dtype) return false;
  if (!ir::IsFloat(a.dtype)) return a.i == b.i;
  if (std::isnan(a.f) || std::isnan(b.f)) return std::isnan(a.f) && std::isnan(b.f);
  return a.f == b.f && std::signbit(a.f) == std::signbit(b.f);
}

UOp SimplifyTwice(UOpContext& ctx, UOp before, const rewrite::RuleSet& rules) {
  rewrite::Rewriter rewriter(ctx, rules, {.max_steps = 20000}),
      again(ctx, rules, {.max_steps = 20000});
  const UOp after = rewriter.Run(before);
  EXPECT_FALSE(rewriter.diverged())
      << ::testing::PrintToString(rewriter.last_rules()) << ir::Print(ctx, before);
  const UOp twice = again.Run(after);
  EXPECT_EQ(twice, after) << rules.name() << " is not idempotent:\n"
                          << ir::Print(ctx, before) << "became\n"
                          << ir::Print(ctx, after) << "and\n"
                          << ir::Print(ctx, twice);
  return after;
}

TEST(FloatFuzz, RulesKeepBits) {
  const int64_t n = test::CasesFromEnvironment("UOPD_FUZZ_EXPRESSIONS", 10000);
  const int64_t start = test::FromEnvironment("UOPD_FUZZ_SEED", 0);
  for (int64_t seed = start; seed < start + n; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    UOpContext ctx;
    FloatExpressions g(ctx, static_cast<uint64_t>(seed));
    const UOp before = g.Root();
    const UOp after = SimplifyTwice(ctx, before, SymbolicRules());
    SimplifyTwice(ctx, before, FastSymbolicRules());
    for (int trial = 0; trial < 40; ++trial) {
      std::vector<Scalar> at;
      for (UOp leaf : g.leaves()) at.push_back(g.Value(leaf.dtype()));
      const Scalar want = Evaluate(ctx, before, g.leaves(), at),
                   got = Evaluate(ctx, after, g.leaves(), at);
      EXPECT_TRUE(Same(want, got))
          << want.i << " " << want.f << " became " << got.i << " " << got.f << "\n"
          << ir::Print(ctx, before) << "became\n"
          << ir::Print(ctx, after);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace uopd::rules
