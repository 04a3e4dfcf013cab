// SPDX-License-Identifier: MIT
// Random integer expressions: SymbolicRules change no value, and every value lies within the bounds
// that were promised, before and after. Every point of small spaces is tried, many random ones and
// all corners of large ones. The reference is ir::EvalAlu.
//
// UOPD_FUZZ_EXPRESSIONS sets how many, UOPD_FUZZ_SEED the first seed; one expression per seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "core/ir/build.h"
#include "core/ir/eval.h"
#include "core/ir/graph.h"
#include "core/ir/print.h"
#include "core/rewrite/rewriter.h"
#include "core/rules/rules.h"

namespace uopd::rules {
namespace {

using ir::Dtype;
using ir::Op;
using ir::Scalar;
using ir::UOp;
using ir::UOpContext;

constexpr Dtype kStored[] = {Dtype::I8,  Dtype::U8,  Dtype::I16, Dtype::U16,
                             Dtype::I32, Dtype::U32, Dtype::I64, Dtype::U64};

class Generator {
 public:
  Generator(UOpContext& ctx, uint64_t seed) : ctx_(ctx), random_(seed * 0x9E3779B97F4A7C15u + 1) {
    // Mostly the sizes that shapes have; sometimes the ends of what an index may be.
    extreme_ = Chance(6);
    const int leaves = static_cast<int>(Pick(1, 4));
    for (int i = 0; i < leaves; ++i) {
      if (Chance(2)) {
        const int64_t size =
            extreme_ && Chance(2) ? (int64_t{1} << Pick(20, 62)) - Pick(0, 3) : Pick(1, 12);
        leaves_.push_back(ir::Range(ctx, ctx.Idx(size), i, ir::AxisType::LOOP));
      } else {
        int64_t lo = Pick(-8, 4), hi = lo + Pick(0, 12);
        if (extreme_ && Chance(2)) lo = -(int64_t{1} << Pick(1, 40)) + Pick(0, 2);
        if (extreme_ && Chance(2)) hi = (int64_t{1} << Pick(1, 40)) - Pick(0, 2);
        if (lo > hi) std::swap(lo, hi);
        leaves_.push_back(ir::Variable(ctx, std::string(1, static_cast<char>('a' + i)), lo, hi));
      }
    }
    numbers_ = leaves_;
    const bool stored = Chance(3);
    if (stored) dtype_ = kStored[Pick(0, 7)];
    const int64_t steps = Pick(3, 18);
    for (int64_t i = 0; i < steps; ++i) Step(stored);
  }

  UOp Root() {
    if (!stored_.empty() && Chance(2)) return stored_.back();
    if (!bools_.empty() && Chance(3)) return bools_.back();
    return numbers_.back();
  }
  const std::vector<UOp>& leaves() const { return leaves_; }

  int64_t Pick(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(random_() % (static_cast<uint64_t>(hi - lo) + 1));
  }
  bool Chance(int64_t n) { return Pick(1, n) == 1; }

  // Values for the leaves. `corner` numbers the corners of the space; beyond them it is random.
  std::vector<int64_t> Point(uint64_t corner) {
    std::vector<int64_t> at;
    for (size_t i = 0; i < leaves_.size(); ++i) {
      const ir::Bounds b = ctx_.BoundsOf(leaves_[i]);
      const auto lo = static_cast<int64_t>(b.min), hi = static_cast<int64_t>(b.max);
      at.push_back(corner < (uint64_t{1} << leaves_.size()) ? (corner >> i & 1 ? hi : lo)
                                                            : Pick(lo, hi));
    }
    return at;
  }

 private:
  UOp Any(const std::vector<UOp>& pool) {
    // Recent ones more often, so that the expressions get deep.
    const auto n = static_cast<int64_t>(pool.size());
    return pool[static_cast<size_t>(Chance(2) ? Pick(0, n - 1)
                                              : Pick(std::max<int64_t>(0, n - 3), n - 1))];
  }
  int64_t Number() {
    if (extreme_ && Chance(4))
      return (int64_t{1} << Pick(10, 61)) * (Chance(2) ? 1 : -1) + Pick(-1, 1);
    return Chance(4) ? Pick(-30, 60) : Pick(-4, 9);
  }
  int64_t Divisor() {
    constexpr int64_t kUsual[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24};
    return Chance(6) ? Number() : kUsual[Pick(0, 10)];
  }
  UOp Index(int64_t v) { return ctx_.Idx(v); }
  UOp Operand() { return Chance(3) ? Index(Number()) : Any(numbers_); }
  UOp Condition() {
    if (bools_.empty() || Chance(3)) {
      constexpr Op kCompare[] = {Op::CMPLT, Op::CMPLT, Op::CMPNE, Op::CMPEQ};
      const UOp a = Any(numbers_), b = Operand();
      return ir::Alu(ctx_, kCompare[Pick(0, 3)], {Chance(3) ? b : a, Chance(3) ? a : b});
    }
    return Any(bools_);
  }

  // An index whose value may leave 64 bits is no program that the verifier lets through.
  // Gives what was kept last.
  UOp Keep(UOp u) {
    const ir::IntRange full = ir::RangeOf(Dtype::Index);
    if (ctx_.BoundsOf(u).Within({full.min, full.max})) numbers_.push_back(u);
    return numbers_.back();
  }

  void Step(bool stored) {
    const UOp x = Any(numbers_);
    switch (Pick(0, stored ? 20 : 15)) {
      case 0:
        Keep(ir::Add(ctx_, x, Operand()));
        return;
      case 1:
        Keep(ir::Sub(ctx_, Chance(4) ? Index(Number()) : x, Operand()));
        return;
      case 2:
      case 3:
        Keep(ir::Add(ctx_, Keep(ir::Mul(ctx_, x, Index(Number()))), Operand()));
        return;
      case 4:
        Keep(ir::Mul(ctx_, x, Operand()));
        return;
      case 5:
        Keep(ir::Alu(ctx_, Op::FLOORDIV, {x, Index(Divisor())}));
        return;
      case 6:
        Keep(ir::Alu(ctx_, Op::FLOORMOD, {x, Index(Divisor())}));
        return;
      case 7: {
        constexpr Op kDivisions[] = {Op::FLOORDIV, Op::FLOORMOD, Op::CDIV, Op::CMOD};
        Keep(ir::Alu(ctx_, kDivisions[Pick(0, 3)], {x, Operand()}));
        return;
      }
      case 8:
        Keep(ir::Alu(ctx_, Op::MAX, {x, Operand()}));
        return;
      case 9: {
        constexpr Op kBits[] = {Op::AND, Op::OR, Op::XOR};
        Keep(ir::Alu(ctx_, kBits[Pick(0, 2)], {x, Operand()}));
        return;
      }
      case 10:
        Keep(ir::Alu(ctx_, Chance(2) ? Op::SHL : Op::SHR,
                     {x, Chance(3) ? Any(numbers_) : Index(Pick(-1, Chance(5) ? 70 : 8))}));
        return;
      case 11:
        Keep(Chance(2) ? ir::Alu(ctx_, Op::NEG, {x})
                       : ir::Alu(ctx_, Op::MULACC, {x, Operand(), Operand()}));
        return;
      case 12:
        bools_.push_back(Condition());
        return;
      case 13: {
        constexpr Op kLogic[] = {Op::AND,   Op::OR,    Op::XOR,  Op::AND,
                                 Op::CMPNE, Op::CMPEQ, Op::CMPLT};
        const UOp a = Condition(), b = Condition();
        bools_.push_back(Chance(4) ? ir::Not(ctx_, a) : ir::Alu(ctx_, kLogic[Pick(0, 6)], {a, b}));
        return;
      }
      case 14:
        Keep(ir::Where(ctx_, Condition(), x, Operand()));
        return;
      case 15:
        if (!bools_.empty() && Chance(2)) {
          Keep(ir::Cast(ctx_, Any(bools_), Dtype::Index));
          return;
        }
        Keep(ir::Where(ctx_, Condition(), Operand(), x));
        return;
      case 16:
        stored_.push_back(ir::Cast(ctx_, x, dtype_));
        return;
      case 17: {
        const Dtype other = kStored[Pick(0, 7)];
        if (stored_.empty()) return;
        stored_.push_back(ir::Cast(ctx_, ir::Cast(ctx_, Any(stored_), other), dtype_));
        return;
      }
      case 18:
        if (stored_.empty()) return;
        if (Chance(3))
          bools_.push_back(ir::Alu(ctx_, Chance(2) ? Op::CMPLT : Op::CMPNE, {Stored(), Stored()}));
        else if (dtype_ != Dtype::U64)
          Keep(ir::Cast(ctx_, Stored(), Dtype::Index));
        return;
      case 19:
        stored_.push_back(ir::Where(ctx_, Condition(), Stored(), Stored()));
        return;
      default: {
        constexpr Op kOps[] = {Op::ADD,  Op::SUB,      Op::MUL,      Op::MAX, Op::CDIV,
                               Op::CMOD, Op::FLOORDIV, Op::FLOORMOD, Op::AND, Op::OR,
                               Op::XOR,  Op::SHL,      Op::SHR,      Op::ADD, Op::MUL};
        if (Chance(8))
          stored_.push_back(ir::Alu(ctx_, Op::NEG, {Stored()}));
        else
          stored_.push_back(ir::Alu(ctx_, kOps[Pick(0, 14)], {Stored(), Stored()}));
      }
    }
  }
  UOp Stored() {
    if (!stored_.empty() && !Chance(3)) return Any(stored_);
    if (Chance(2)) return ir::Cast(ctx_, Any(numbers_), dtype_);
    return ctx_.Int(dtype_, Chance(3) ? static_cast<int64_t>(random_()) : Pick(-3, 9));
  }

  UOpContext& ctx_;
  std::mt19937_64 random_;
  bool extreme_ = false;
  Dtype dtype_ = Dtype::I32;
  std::vector<UOp> leaves_, numbers_, bools_, stored_;
};

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

void CheckOne(uint64_t seed) {
  UOpContext ctx;
  Generator g(ctx, seed);
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
    const Scalar want = old_value.At(g.leaves(), at, outside);
    const Scalar got = new_value.At(g.leaves(), at, outside);
    ASSERT_EQ(got, want) << want.i << " became " << got.i << " at " << ::testing::PrintToString(at)
                         << "\n"
                         << text();
    ASSERT_FALSE(outside) << "a value outside its bounds at " << ::testing::PrintToString(at)
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

TEST(ExpressionFuzz, RulesKeepValuesAndBounds) {
  const char* count = std::getenv("UOPD_FUZZ_EXPRESSIONS");
  const char* first = std::getenv("UOPD_FUZZ_SEED");
  const int64_t n = count != nullptr ? std::atoll(count) : 10000;
  const int64_t start = first != nullptr ? std::atoll(first) : 0;
  for (int64_t seed = start; seed < start + n; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    CheckOne(static_cast<uint64_t>(seed));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace uopd::rules
