// SPDX-License-Identifier: MIT
// Every rule of every set against ir::EvalAlu. The left-hand side of a rule is built with random
// parts and dtypes, the rule alone is applied, and both sides are evaluated for many values of what
// they read, special ones included. Floats must agree bit for bit, up to NaN; rules for fast math
// may differ by rounding where everything is finite. A rule that random parts do not fire must come
// with samples of its own.
//
// UOPD_FUZZ_RULES sets the number of samples per rule, UOPD_FUZZ_SEED the seed.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <random>

#include "core/ir/analysis/eval.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/ir/verify/spec.h"
#include "core/rewrite/rewriter.h"
#include "core/rules/rules.h"
#include "tests/support/environment.h"

namespace uopd::rules {
namespace {

using ir::Dtype;
using ir::Op;
using ir::OpSet;
using ir::Scalar;
using ir::UOp;
using ir::UOpContext;
using rewrite::DtypeSet;
using rewrite::PatternTree;
using rewrite::Rule;

constexpr int64_t kBufferSize = 6;

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t Pick(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(engine_() % (static_cast<uint64_t>(hi - lo) + 1));
  }
  bool Chance(int64_t n) { return Pick(1, n) == 1; }
  uint64_t Bits() { return engine_(); }
  Scalar Value(Dtype d) {
    if (ir::IsFloat(d)) {
      constexpr double kInf = std::numeric_limits<double>::infinity();
      const double special[] = {0.0,   -0.0, 1.0,  -1.0,  2.0,      0.5,   kInf,
                                -kInf, NAN,  1e30, 1e-30, -65504.0, 1e-45, 3.0};
      if (Chance(2)) return Scalar::Float(d, special[Pick(0, 13)]);
      return Scalar::Float(d, static_cast<double>(Pick(-4000, 4000)) / 64);
    }
    const ir::IntRange r = ir::RangeOf(d);
    if (Chance(6)) return Scalar::Int(d, r.min);
    if (Chance(6)) return Scalar::Int(d, r.max);
    return Scalar::Int(d, Chance(3) ? static_cast<ir::Int128>(Bits()) : Pick(-4, 9));
  }

 private:
  std::mt19937_64 engine_;
};

// What the leaves of a sample hold.
struct World {
  std::map<uint32_t, Scalar> leaves;              // PARAM of shape (), DEFINE_VAR, RANGE
  std::map<int64_t, std::vector<Scalar>> memory;  // by slot
};

// Value of u, recursively: samples are a few nodes deep. Nullopt where it reads outside of a
// buffer.
std::optional<Scalar> Eval(World& w, UOp u) {
  if (auto it = w.leaves.find(u.id()); it != w.leaves.end()) return it->second;
  if (u.Is(Op::CONST)) return Scalar::Of(u);
  if (u.Is(Op::LOAD)) {
    const UOp index = u.src(0);
    if (index.n_src() == 3) {
      const auto gate = Eval(w, index.src(2));
      if (!gate) return std::nullopt;
      if (gate->i == 0)
        return ir::IsFloat(u.dtype()) ? Scalar::Float(u.dtype(), 0) : Scalar::Int(u.dtype(), 0);
    }
    const auto at = Eval(w, index.src(1));
    if (!at || at->i < 0 || at->i >= kBufferSize) return std::nullopt;
    return w.memory.at(index.src(0).slot())[static_cast<size_t>(at->i)];
  }
  if (u.Is(Op::REDUCE)) {
    const Dtype wide = ir::IsFloat(u.dtype()) ? Dtype::F64 : u.dtype();
    Scalar acc = ir::ReduceIdentity(u.reduce_op(), wide);
    std::vector<int64_t> at(u.n_src() - 1, 0), size;
    for (UOp r : u.srcs().subspan(1)) {
      size.push_back(Eval(w, r.src(0))->i);
      if (size.back() <= 0) return ir::IsFloat(wide) ? Scalar::Float(u.dtype(), acc.f) : acc;
    }
    for (bool more = true; more;) {
      for (size_t i = 0; i < at.size(); ++i)
        w.leaves[u.src(i + 1).id()] = Scalar::Int(Dtype::Index, at[i]);
      auto x = Eval(w, u.src(0));
      if (x && ir::IsFloat(wide)) x = Scalar{Dtype::F64, 0, x->f};
      const Scalar operands[] = {acc, x ? *x : acc};
      if (!x) return std::nullopt;
      acc = *ir::EvalAlu(u.reduce_op(), wide, operands);
      more = false;
      for (size_t i = 0; i < at.size() && !more; ++i) {
        more = ++at[i] < size[i];
        if (!more) at[i] = 0;
      }
    }
    for (UOp r : u.srcs().subspan(1)) w.leaves.erase(r.id());
    return ir::IsFloat(wide) ? Scalar::Float(u.dtype(), acc.f) : acc;
  }
  if (!u.Is(ir::kElementwiseOps)) return std::nullopt;
  Scalar operands[3];
  for (size_t i = 0; i < u.n_src(); ++i) {
    const auto v = Eval(w, u.src(i));
    if (!v) return std::nullopt;
    operands[i] = *v;
  }
  const auto out = ir::EvalAlu(u.op(), u.dtype(), std::span(operands, u.n_src()));
  // The evaluator has one NaN; memory has many, and a BITCAST shows which.
  if (u.Is(Op::BITCAST) && out && ir::IsFloat(out->dtype) && std::isnan(out->f))
    return std::nullopt;
  return out;
}

class SampleBuilder {
 public:
  SampleBuilder(UOpContext& ctx, Random& random) : ctx_(ctx), random_(random) {}

  // A node that the tree describes, or null where the random choices do not fit together.
  UOp Root(const PatternTree& tree) {
    variables_.fill(UOp());
    return Build(tree, static_cast<Dtype>(random_.Pick(1, ir::kDtypeCount - 1)), 0);
  }

  UOp Leaf(Dtype d) {
    if (random_.Chance(5)) return Constant(d);
    if (d == Dtype::Index) {
      if (random_.Chance(3) && !ranges_.empty())
        return ranges_[static_cast<size_t>(random_.Pick(0, 1))];
      const int64_t lo = random_.Pick(-6, 2);
      return ir::Variable(
          ctx_,
          std::string(1, static_cast<char>('a' + random_.Pick(0, 2))) + std::to_string(lo + 6), lo,
          lo + 9);
    }
    // What a loop reads; its ranges are shorter than buffers.
    if (!ranges_.empty() && random_.Chance(3))
      return ir::Load(ctx_, ir::Index(ctx_, Buffer(d), ranges_[0]));
    if (ir::IsInt(d) && random_.Chance(3)) return ir::Cast(ctx_, Leaf(Dtype::Index), d);
    return ir::Param(ctx_, 100 + static_cast<int64_t>(d) * 4 + random_.Pick(0, 2), d,
                     ctx_.Make(Op::STACK, Dtype::Index, std::span<const UOp>{}));
  }

 private:
  UOp Constant(Dtype d) {
    const Scalar v = random_.Value(d);
    if (ir::IsFloat(d)) return ctx_.Float(d, v.f);
    return d == Dtype::Index ? ctx_.Idx(random_.Pick(-4, 9)) : ctx_.Int(d, v.wide());
  }

  // A leaf, or a few ops on leaves.
  UOp Expression(Dtype d, int depth) {
    if (depth > 3 || random_.Chance(2)) return Leaf(d);
    if (d == Dtype::Bool) {
      const Dtype of = random_.Chance(2) ? Dtype::Index : Dtype::I32;
      constexpr Op kOps[] = {Op::CMPLT, Op::CMPNE, Op::CMPEQ};
      return random_.Chance(4) ? ir::Not(ctx_, Expression(Dtype::Bool, depth + 1))
                               : ir::Alu(ctx_, kOps[random_.Pick(0, 2)],
                                         {Expression(of, depth + 1), Expression(of, depth + 1)});
    }
    if (random_.Chance(4)) {
      return ir::Where(ctx_, Expression(Dtype::Bool, depth + 1), Expression(d, depth + 1),
                       random_.Chance(2) ? ctx_.Const(d, 0) : Leaf(d));
    }
    if (random_.Chance(6)) return ir::Cast(ctx_, Leaf(Dtype::Bool), d);
    constexpr Op kOps[] = {Op::ADD, Op::MUL, Op::MAX, Op::FLOORDIV, Op::FLOORMOD};
    return ir::Alu(ctx_, kOps[random_.Pick(0, ir::IsFloat(d) ? 2 : 4)],
                   {Expression(d, depth + 1), random_.Chance(2) ? Constant(d) : Leaf(d)});
  }

  UOp Buffer(Dtype d) {
    const int64_t size = kBufferSize;
    return ir::Param(ctx_, static_cast<int64_t>(d), d, ir::ShapeArg(ctx_, std::span(&size, 1)));
  }

  static bool Allows(DtypeSet dtypes, Dtype d) { return dtypes >> static_cast<int>(d) & 1; }

  UOp Build(const PatternTree& tree, Dtype want, int depth) {
    switch (tree.kind) {
      case PatternTree::kAnyOf:
        return Build(tree.children[static_cast<size_t>(random_.Pick(0, 1))], want, depth);
      case PatternTree::kLiteral: {
        if (!ir::IsFloat(want)) {
          const ir::IntRange r = ir::RangeOf(want);
          if (tree.literal < r.min || tree.literal > r.max) return UOp();
        } else if (tree.literal == 0 && random_.Chance(2)) {
          return ctx_.Float(want, -0.0);
        }
        return Allows(tree.dtypes, want) ? ctx_.Const(want, static_cast<double>(tree.literal))
                                         : UOp();
      }
      case PatternTree::kAny:
      case PatternTree::kConst: {
        if (!Allows(tree.dtypes, want)) return UOp();
        UOp& v = variables_[static_cast<size_t>(std::max(0, tree.variable))];
        if (tree.variable >= 0 && v) return v.dtype() == want ? v : UOp();
        const UOp made =
            tree.kind == PatternTree::kConst ? Constant(want) : Expression(want, depth);
        if (tree.variable >= 0) v = made;
        return made;
      }
      case PatternTree::kNode:
        return BuildNode(tree, want, depth);
    }
    return UOp();
  }

  UOp BuildNode(const PatternTree& tree, Dtype want, int depth) {
    std::vector<Op> ops;
    for (int i = 0; i < ir::kOpCount; ++i) {
      if (tree.ops.Has(static_cast<Op>(i))) ops.push_back(static_cast<Op>(i));
    }
    const Op op = ops[static_cast<size_t>(random_.Pick(0, static_cast<int64_t>(ops.size()) - 1))];
    if (op == Op::CONST) return Allows(tree.dtypes, want) ? Constant(want) : UOp();
    if (op == Op::DEFINE_VAR) return ir::Variable(ctx_, "point", 3, 3);
    if (ir::kComparisonOps.Has(op)) {
      if (want != Dtype::Bool) return UOp();
      want = OperandDtype(tree);
    }
    if (op == Op::STORE || op == Op::LOAD || op == Op::INDEX || op == Op::REDUCE) {
      if (want == Dtype::Index) return UOp();
    } else if (!Allows(tree.dtypes, want) && !ir::kComparisonOps.Has(op)) {
      return UOp();
    }
    const ir::OpInfo& info = ir::Info(op);
    std::vector<UOp> ranges;
    if (op == Op::REDUCE) {
      const int64_t n = random_.Pick(1, 2);
      for (int64_t i = 0; i < n; ++i)
        ranges.push_back(
            ir::Range(ctx_, ctx_.Idx(random_.Pick(1, 5)), 50 + i, ir::AxisType::REDUCE));
      ranges_ = {ranges[0], ranges.back()};
    }
    size_t n = tree.children.size();
    if (tree.each || (tree.rest && op != Op::REDUCE)) n = static_cast<size_t>(info.min_src);
    if (op == Op::REDUCE) n = 1;
    ir::SymbolicDims src;
    const Dtype operand = op == Op::CAST || op == Op::BITCAST
                              ? static_cast<Dtype>(random_.Pick(1, ir::kDtypeCount - 1))
                              : want;
    for (size_t i = 0; i < n; ++i) {
      Dtype d = operand;
      if (op == Op::WHERE && i == 0) d = Dtype::Bool;
      if (op == Op::INDEX && i > 0) d = i == 1 ? Dtype::Index : Dtype::Bool;
      UOp s;
      if (op == Op::INDEX && i == 0) {
        s = Buffer(want);
        const PatternTree& t = tree.children[0];
        if (t.variable >= 0) variables_[static_cast<size_t>(t.variable)] = s;
      } else if (tree.each || i < tree.children.size()) {
        s = Build(tree.children[tree.each ? 0 : i], d, depth + 1);
      } else {
        s = Expression(d, depth + 1);
      }
      if (!s) return UOp();
      src.push_back(s);
    }
    if (op == Op::REDUCE) {
      constexpr Op kReduce[] = {Op::ADD, Op::ADD, Op::MUL, Op::MAX};
      ranges_.clear();
      return ir::ReduceRanges(ctx_, kReduce[random_.Pick(0, 3)], src[0], ranges);
    }
    Dtype out = want;
    if (ir::kComparisonOps.Has(op)) out = Dtype::Bool;
    if (op == Op::STORE) out = Dtype::Void;
    const ir::Arg arg = info.arg == ir::ArgSchema::Int ? ir::Arg::Int(0) : ir::Arg{};
    return ctx_.Make(op, out, src, arg);
  }

  // A dtype that the sources of a comparison may have.
  Dtype OperandDtype(const PatternTree& tree) {
    DtypeSet allowed = ~DtypeSet{1};
    for (const PatternTree& c : tree.children) {
      if (c.kind == PatternTree::kNode &&
          (c.ops.Has(Op::CMPLT) || c.ops.Has(Op::CMPNE) || c.ops.Has(Op::CMPEQ)))
        allowed &= rewrite::kBools;
      allowed &= c.dtypes;
      if (c.variable >= 0 && variables_[static_cast<size_t>(c.variable)])
        return variables_[static_cast<size_t>(c.variable)].dtype();
    }
    std::vector<Dtype> some;
    for (int d = 1; d < ir::kDtypeCount; ++d) {
      if (Allows(allowed, static_cast<Dtype>(d))) some.push_back(static_cast<Dtype>(d));
    }
    return some.empty()
               ? Dtype::Bool
               : some[static_cast<size_t>(random_.Pick(0, static_cast<int64_t>(some.size()) - 1))];
  }

  UOpContext& ctx_;
  Random& random_;
  std::array<UOp, rewrite::kMaxVars> variables_;
  std::vector<UOp> ranges_;  // of the REDUCE that is being built
};

// Every node could be in a kernel.
bool IsLegal(UOpContext& ctx, UOp root) {
  const ir::IntRange full = ir::RangeOf(Dtype::Index);
  for (UOp u : ir::Toposort(ctx, root)) {
    if (u.Is(ir::kElementwiseOps) || u.Is(OpSet{Op::CONST, Op::REDUCE})) {
      UOp plain = u;
      if (!ir::VerifyNode(ctx, plain, ir::Level::kKernel).ok()) return false;
    }
    if (u.dtype() == Dtype::Index && !u.Is(Op::STACK) &&
        !ctx.BoundsOf(u).Within({full.min, full.max}))
      return false;
  }
  return true;
}

void Fill(UOpContext& ctx, World& w, std::span<const UOp> roots, Random& random) {
  for (UOp root : roots) {
    for (UOp u : ir::Toposort(ctx, root)) {
      if (w.leaves.contains(u.id())) continue;
      if (u.Is(Op::PARAM) && u.slot() >= 100) w.leaves[u.id()] = random.Value(u.dtype());
      if (u.Is(Op::DEFINE_VAR))
        w.leaves[u.id()] = Scalar::Int(Dtype::Index, random.Pick(u.ints()[0], u.ints()[1]));
      if (u.Is(Op::PARAM) && u.slot() < 100 && !w.memory.contains(u.slot())) {
        auto& m = w.memory[u.slot()];
        for (int64_t i = 0; i < kBufferSize; ++i) m.push_back(random.Value(u.dtype()));
      }
    }
  }
}

// `order_free`: a float sum, whose order, and so its last bits, nobody promises.
bool Same(const Scalar& a, const Scalar& b, bool fast_math, bool order_free) {
  if (a.dtype != b.dtype) return false;
  if (!ir::IsFloat(a.dtype)) return a.i == b.i;
  if (std::isnan(a.f) || std::isnan(b.f)) return fast_math || (std::isnan(a.f) && std::isnan(b.f));
  if (fast_math) {
    if (std::isinf(a.f) || std::isinf(b.f)) return true;
    const double scale = std::max({std::abs(a.f), std::abs(b.f), 1e3});
    return ir::IsSmallFloat(a.dtype) || std::abs(a.f - b.f) <= scale * 1e-2;
  }
  if (order_free &&
      std::abs(a.f - b.f) <= std::abs(a.f) * std::ldexp(1, a.dtype == Dtype::F64 ? -48 : -21))
    return std::signbit(a.f) == std::signbit(b.f);
  return a.f == b.f && std::signbit(a.f) == std::signbit(b.f);
}

// What a statement or address does, as a value.
UOp AsValue(UOpContext& ctx, UOp u) {
  if (u.Is(Op::INDEX)) return ir::Load(ctx, u);
  if (u.Is(Op::STORE)) {  // the value where the gate holds
    const UOp index = u.src(0);
    const UOp zero = ctx.Const(u.src(1).dtype(), 0);
    return index.n_src() == 3 ? ir::Where(ctx, index.src(2), u.src(1), zero) : u.src(1);
  }
  return u;
}

struct Result {
  bool failed = false;
  int fired = 0, won = 0;  // won: the whole set picks this rule for the sample too
};

void CheckSample(UOpContext& ctx, const rewrite::RuleSet& set, const Rule& rule, UOp sample,
                 Random& random, Result& result) {
  rewrite::RuleEnv env;
  const UOp out = rule.apply(rule, sample, ctx, env);
  if (!out) return;
  ++result.fired;
  std::vector<uint64_t> attempts(set.rules().size());
  const auto outcome = set.Apply(sample, ctx, attempts.data());
  result.won += outcome.result && set.rules()[outcome.rule].get() == &rule;
  const UOp before = AsValue(ctx, sample);
  UOp after = AsValue(ctx, out);
  if (out.Is(Op::GROUP)) after = ctx.Const(before.dtype(), 0);  // nothing is stored
  result.failed = before.dtype() != after.dtype();
  EXPECT_EQ(before.dtype(), after.dtype()) << rule.name << "\n"
                                           << ir::Print(ctx, sample) << ir::Print(ctx, out);
  for (int trial = 0; trial < 12; ++trial) {
    World w;
    const UOp both[] = {before, after};
    Fill(ctx, w, both, random);
    const auto want = Eval(w, before), got = Eval(w, after);
    if (!want) continue;
    EXPECT_TRUE(got) << "reads outside of its buffer\n"
                     << ir::Print(ctx, sample) << "became\n"
                     << ir::Print(ctx, out);
    if (!got) return void(result.failed = true);
    if (Same(*want, *got, rule.set == "fast_math", sample.Is(Op::REDUCE))) continue;
    result.failed = true;
    ADD_FAILURE() << want->i << " " << want->f << " became " << got->i << " " << got->f << "\n"
                  << ir::Print(ctx, sample) << "became\n"
                  << ir::Print(ctx, out);
    return;
  }
}

// Left-hand sides that random parts hardly ever hit.
struct Hand {
  std::string_view rule, text;
};
constexpr Hand kHand[] = {
    {"given.index",
     "%0 = CONST<index> {6}\n%1 = STACK<index> %0\n%2 = PARAM<f32> %1 {0, GLOBAL}\n"
     "%3 = DEFINE_VAR<index> {0, 20, \"a\"}\n%4 = FLOORMOD<index> %3, %0\n%5 = CMPLT<bool> %3, %0\n"
     "%6 = INDEX<f32> %2, %4, %5\n"},
    {"fast_math.sigmoid_factor",
     "%0 = STACK<index>\n%1 = PARAM<f32> %0 {100, GLOBAL}\n%2 = EXP2<f32> %1\n"
     "%3 = CONST<f32> {1}\n%4 = ADD<f32> %2, %3\n%5 = RECIPROCAL<f32> %4\n"
     "%6 = MUL<f32> %5, %5\n%7 = MUL<f32> %6, %2\n"},
    {"boolean.and_equal",
     "%0 = STACK<index>\n%1 = PARAM<f32> %0 {100, GLOBAL}\n%2 = CONST<f32> {2}\n"
     "%3 = CMPEQ<bool> %1, %2\n%4 = MUL<f32> %1, %1\n%5 = CMPLT<bool> %1, %4\n"
     "%6 = AND<bool> %5, %3\n"},
    {"index.interval_end",
     "%0 = DEFINE_VAR<index> {0, 9, \"a\"}\n%1 = DEFINE_VAR<index> {0, 9, \"b\"}\n"
     "%2 = CMPLT<bool> %0, %1\n%3 = CMPEQ<bool> %1, %0\n%4 = OR<bool> %3, %2\n"},
    {"index.interval_end",
     "%0 = DEFINE_VAR<index> {0, 9, \"a\"}\n%1 = CONST<index> {5}\n%2 = CMPLT<bool> %0, %1\n"
     "%3 = CONST<bool> {true}\n%4 = CMPNE<bool> %2, %3\n%5 = CMPNE<bool> %0, %1\n"
     "%6 = AND<bool> %4, %5\n"},
    // a + 6 b < 20 && a - b < 4 && !(a - b < -1): b < 3
    {"index.known_sum",
     "%0 = DEFINE_VAR<index> {0, 6, \"a\"}\n%1 = DEFINE_VAR<index> {0, 4, \"b\"}\n"
     "%2 = CONST<index> {6}\n%3 = MUL<index> %1, %2\n%4 = ADD<index> %0, %3\n"
     "%5 = CONST<index> {20}\n%6 = CMPLT<bool> %4, %5\n%7 = CONST<index> {-1}\n"
     "%8 = MUL<index> %1, %7\n%9 = ADD<index> %0, %8\n%10 = CONST<index> {4}\n"
     "%11 = CMPLT<bool> %9, %10\n%12 = CMPLT<bool> %9, %7\n%13 = CONST<bool> {true}\n"
     "%14 = CMPNE<bool> %12, %13\n%15 = AND<bool> %11, %14\n%16 = AND<bool> %6, %15\n"},
};

TEST(RuleFuzz, EveryRuleKeepsValuesAndFires) {
  const int64_t samples = test::FromEnvironment("UOPD_FUZZ_RULES", 4000);
  Random random(static_cast<uint64_t>(test::FromEnvironment("UOPD_FUZZ_SEED", 1)));
  for (const rewrite::RuleSet* set : AllRuleSets()) {
    for (const auto& rule : set->rules()) {
      if (rule->set != set->name()) continue;  // tested where it was written
      SCOPED_TRACE(::testing::Message() << rule->set << "." << rule->name);
      const PatternTree tree = rule->Describe();
      Result result;
      for (const Hand& h : kHand) {
        if (h.rule != std::string(rule->set) + "." + std::string(rule->name)) continue;
        UOpContext ctx;
        const auto sample = ir::Parse(ctx, h.text);
        ASSERT_TRUE(sample.ok()) << StatusText(sample.status());
        const int before = result.fired;
        CheckSample(ctx, *set, *rule, *sample, random, result);
        EXPECT_EQ(result.fired, before + 1) << "the sample does not fire";
      }
      for (int i = 0; i < samples && !result.failed; ++i) {
        UOpContext ctx;
        const UOp sample = SampleBuilder(ctx, random).Root(tree);
        if (!sample || !IsLegal(ctx, sample)) continue;
        CheckSample(ctx, *set, *rule, sample, random, result);
      }
      EXPECT_GT(result.fired, 0) << "never fires: give it a sample by hand";
      EXPECT_TRUE(result.fired == 0 || result.won > 0)
          << "never reached: earlier rules take every sample";
    }
  }
}

// How often a whole rewrite with the set, sources first, applies the rule to the sample.
uint64_t MatchesOf(UOpContext& ctx, const rewrite::RuleSet& set, const Rule& rule, UOp sample) {
  const uint64_t before = rule.counts.matches.load();
  rewrite::Rewriter(ctx, set, {.max_steps = 20000}).Run(sample);  // counts when it dies
  return rule.counts.matches.load() - before;
}

// In the sets that passes run, a rule competes with those of other families, and sees only what
// they make of its sources.
TEST(RuleFuzz, EveryRuleIsReachedInTheSetsThatAreRun) {
  Random random(static_cast<uint64_t>(test::FromEnvironment("UOPD_FUZZ_SEED", 1)));
  constexpr int kSamples = 20000;
  for (const rewrite::RuleSet* set : {&PlainRules(), &SymbolicRules(), &FastSymbolicRules()}) {
    for (const auto& rule : set->rules()) {
      const PatternTree tree = rule->Describe();
      bool reached = false;
      for (const Hand& h : kHand) {
        if (h.rule != rule->FullName()) continue;
        UOpContext ctx;
        const auto sample = ir::Parse(ctx, h.text);
        ASSERT_TRUE(sample.ok()) << StatusText(sample.status());
        reached |= MatchesOf(ctx, *set, *rule, *sample) > 0;
      }
      for (int i = 0; i < kSamples && !reached; ++i) {
        UOpContext ctx;
        const UOp sample = SampleBuilder(ctx, random).Root(tree);
        if (!sample || !IsLegal(ctx, sample)) continue;
        reached = MatchesOf(ctx, *set, *rule, sample) > 0;
      }
      EXPECT_TRUE(reached) << rule->FullName() << " is never reached in " << set->name()
                           << ": other rules take, or take apart, every sample";
    }
  }
}

}  // namespace
}  // namespace uopd::rules
