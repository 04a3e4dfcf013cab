// SPDX-License-Identifier: MIT
// Every rule against central finite differences of the reference evaluator, in double.
#include "core/rules/gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"
#include "tests/support/tensor_interpreter.h"

namespace uopd::rules {
namespace {

using ir::Dims;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using ir::UOpContext;
using ::testing::ElementsAre;
using uopd::test::HostArray;
using uopd::test::TensorInterpreter;

std::vector<double> Numbers(int64_t n, double from, double step) {
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(from + step * static_cast<double>((i * 7) % n));
  return out;
}

struct Case {
  std::string name;
  std::vector<Dims> dims;  // of the inputs
  std::function<UOp(UOpContext&, const std::vector<UOp>&)> build;
  double from = 0.3, step = 0.17;
};
void PrintTo(const Case& c, std::ostream* os) { *os << c.name; }

class GradientRules : public ::testing::TestWithParam<Case> {};

// sum(weights * f(inputs)), so that every element of f has another gradient.
UOp Weighted(UOpContext& ctx, UOp f) {
  const Dims dims = *ir::StaticDims(*ctx.ShapeOf(f));
  const UOp flat = ir::Reshape(ctx, f, Dims{ir::Product(dims)});
  const UOp iota = ir::Iota(ctx, Dtype::I64, ir::ShapeArg(ctx, Dims{ir::Product(dims)}), 0);
  const UOp weights = ir::Add(ctx, ir::Cast(ctx, iota, Dtype::F64), ctx.Float(Dtype::F64, 0.5));
  return ir::Reshape(ctx, ir::ReduceAxes(ctx, Op::ADD, ir::Mul(ctx, flat, weights), Dims{0}),
                     Dims{});
}

TEST_P(GradientRules, MatchFiniteDifferences) {
  const Case& c = GetParam();
  UOpContext ctx;
  std::vector<UOp> inputs;
  std::vector<HostArray> slots;
  for (size_t i = 0; i < c.dims.size(); ++i) {
    inputs.push_back(
        ir::Param(ctx, static_cast<int64_t>(i), Dtype::F64, ir::ShapeArg(ctx, c.dims[i])));
    slots.push_back(HostArray::Of(Dtype::F64, c.dims[i],
                                  Numbers(ir::Product(c.dims[i]), c.from + 0.05 * i, c.step)));
  }
  const UOp loss = Weighted(ctx, c.build(ctx, inputs));
  for (UOp u : ir::Toposort(ctx, loss))
    ASSERT_TRUE(ir::VerifyNode(ctx, u, ir::Level::kTensor).ok());
  auto gradients = Gradient(ctx, loss, ctx.Float(Dtype::F64, 1), inputs);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  TensorInterpreter interpreter(ctx);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const UOp g = (*gradients)[i];
    for (UOp u : ir::Toposort(ctx, g)) {
      const absl::Status s = ir::VerifyNode(ctx, u, ir::Level::kTensor);
      ASSERT_TRUE(s.ok()) << s;
    }
    ASSERT_TRUE(ir::SameShape(*ctx.ShapeOf(g), *ctx.ShapeOf(inputs[i])));
    auto got = interpreter.Evaluate(g, slots);
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t k = 0; k < slots[i].values.size(); ++k) {
      const double x = slots[i].values[k].f, h = 1e-5;
      auto at = [&](double v) {
        auto moved = slots;
        moved[i].values[k].f = v;
        return interpreter.Evaluate(loss, moved)->values[0].f;
      };
      const double want = (at(x + h) - at(x - h)) / (2 * h);
      EXPECT_NEAR(got->values[k].f, want, 1e-5 * (1 + std::abs(want)))
          << "input " << i << " element " << k;
    }
  }
}

UOp Unary(UOpContext& ctx, Op op, UOp x) { return ir::Alu(ctx, op, {x}); }
Case UnaryCase(Op op, double from = 0.3) {
  return {std::string(ir::Name(op)),
          {{2, 3}},
          [op](auto& ctx, auto& x) { return Unary(ctx, op, x[0]); },
          from};
}
// Broadcasts both ways, with a missing axis.
Case BinaryCase(Op op) {
  return {std::string(ir::Name(op)), {{2, 1, 3}, {2, 1}}, [op](auto& ctx, auto& x) {
            return ir::Alu(ctx, op, {x[0], x[1]});
          }};
}
// x of shape (3, 4) with elements [1][2] and [1][3] replaced.
UOp Patched(UOpContext& ctx, UOp x, UOp row) {
  const UOp part = ir::Shrink(ctx, x, ir::ShapeArg(ctx, Dims{1, 2}), ir::ShapeArg(ctx, Dims{1, 2}));
  return ir::After(ctx, x, {ir::Store(ctx, part, row)});
}
Case ReduceCase(std::string name, Op op, Dims axes, double from = 0.3) {
  return {std::move(name),
          {{2, 3, 2}},
          [op, axes](auto& ctx, auto& x) { return ir::ReduceAxes(ctx, op, x[0], axes); },
          from};
}

INSTANTIATE_TEST_SUITE_P(
    All, GradientRules,
    ::testing::Values(
        UnaryCase(Op::EXP2), UnaryCase(Op::LOG2), UnaryCase(Op::SIN, -0.4), UnaryCase(Op::SQRT),
        UnaryCase(Op::EXP), UnaryCase(Op::LOG), UnaryCase(Op::COS, -0.4),
        UnaryCase(Op::RECIPROCAL), UnaryCase(Op::NEG), UnaryCase(Op::TRUNC),
        UnaryCase(Op::CONTIGUOUS), UnaryCase(Op::CONTIGUOUS_BACKWARD), BinaryCase(Op::ADD),
        BinaryCase(Op::SUB), BinaryCase(Op::MUL), BinaryCase(Op::FDIV), BinaryCase(Op::MAX),
        BinaryCase(Op::POW),
        Case{"WHERE",
             {{2, 3}, {3}, {1}},
             [](auto& ctx, auto& x) {
               return ir::Where(ctx, ir::Lt(ctx, x[0], x[1]), ir::Mul(ctx, x[1], x[1]), x[2]);
             }},
        Case{"MULACC",
             {{2, 3}, {3}, {1}},
             [](auto& ctx, auto& x) { return ir::Alu(ctx, Op::MULACC, {x[0], x[1], x[2]}); }},
        ReduceCase("SumMiddle", Op::ADD, {1}), ReduceCase("SumAll", Op::ADD, {0, 1, 2}),
        ReduceCase("SumNone", Op::ADD, {}), ReduceCase("MaxOuter", Op::MAX, {0}),
        ReduceCase("MaxTwo", Op::MAX, {0, 2}), ReduceCase("ProdInner", Op::MUL, {2}),
        // A zero in the second row of products, two in the first.
        Case{"ProdZeros",
             {{3, 3}},
             [](auto& ctx, auto& x) {
               const UOp zeros = ir::Where(ctx, ir::Lt(ctx, x[0], ctx.Float(Dtype::F64, 0.6)), x[0],
                                           ctx.Float(Dtype::F64, 0));
               return ir::ReduceAxes(ctx, Op::MUL, ir::Mul(ctx, zeros, x[0]), Dims{1});
             }},
        Case{"RESHAPE",
             {{2, 3}},
             [](auto& ctx, auto& x) { return ir::Reshape(ctx, x[0], Dims{3, 1, 2}); }},
        Case{"EXPAND",
             {{3, 1}},
             [](auto& ctx, auto& x) { return ir::Expand(ctx, x[0], Dims{2, 3, 4}); }},
        Case{"PERMUTE",
             {{2, 3, 4}},
             [](auto& ctx, auto& x) { return ir::Permute(ctx, x[0], Dims{2, 0, 1}); }},
        Case{"FLIP", {{2, 3}}, [](auto& ctx, auto& x) { return ir::Flip(ctx, x[0], Dims{0, 1}); }},
        Case{"PAD",
             {{2, 3}},
             [](auto& ctx, auto& x) {
               return ir::Pad(ctx, x[0], ir::ShapeArg(ctx, Dims{1, 0}),
                              ir::ShapeArg(ctx, Dims{4, 5}));
             }},
        Case{"SHRINK",
             {{3, 4}},
             [](auto& ctx, auto& x) {
               return ir::Shrink(ctx, x[0], ir::ShapeArg(ctx, Dims{1, 0}),
                                 ir::ShapeArg(ctx, Dims{2, 3}));
             }},
        Case{"STACK",
             {{2, 3}, {2, 3}},
             [](auto& ctx, auto& x) {
               return ctx.Make(Op::STACK, Dtype::F64, {x[0], ir::Mul(ctx, x[0], x[1])});
             }},
        Case{"COPY",
             {{2}},
             [](auto& ctx, auto& x) {
               return ctx.Make(Op::COPY, Dtype::F64, {x[0]}, ctx.Data({}, "CPU:1"));
             }},
        Case{"MULTI",
             {{2, 3}, {4, 3}},
             [](auto& ctx, auto& x) {
               const UOp whole = ctx.Make(Op::MULTI, Dtype::F64, {x[0], ir::Mul(ctx, x[1], x[1])},
                                          ctx.Data(Dims{0}, ""));
               return ir::Mul(ctx, whole, whole);
             }},
        Case{"MultiOfCopies",
             {{2, 3}},
             [](auto& ctx, auto& x) {
               const UOp whole = ctx.Make(Op::MULTI, Dtype::F64, {x[0], x[0]}, ctx.Data({}, ""));
               return ir::Mul(ctx, whole, x[0]);
             }},
        Case{"AfterStore",
             {{3}, {3}},
             [](auto& ctx, auto& x) {
               const UOp now = ir::After(ctx, x[0], {ir::Store(ctx, x[0], ir::Mul(ctx, x[1], x[1]))});
               return ir::Mul(ctx, now, ir::Add(ctx, x[0], x[1]));
             }},
        Case{"AfterStoreOfARow",
             {{3, 4}, {1, 2}},
             [](auto& ctx, auto& x) { return ir::Mul(ctx, Patched(ctx, x[0], x[1]), x[0]); }},
        Case{"AfterStoreOfARowTwice",  // the second one covers a part of the first
             {{3, 4}, {1, 2}, {2, 1}},
             [](auto& ctx, auto& x) {
               const UOp first = Patched(ctx, x[0], ir::Mul(ctx, x[1], x[1]));
               const UOp part = ir::Shrink(ctx, ir::Permute(ctx, first, Dims{1, 0}),
                                           ir::ShapeArg(ctx, Dims{1, 1}),
                                           ir::ShapeArg(ctx, Dims{2, 1}));
               const UOp second = ir::After(ctx, first, {ir::Store(ctx, part, x[2])});
               return ir::Mul(ctx, second, second);
             }},
        Case{"AfterStoreSeenThroughAView",
             {{3, 4}, {1, 2}},
             [](auto& ctx, auto& x) {
               const UOp after = Patched(ctx, x[0], x[1]);
               const UOp flat = ir::After(ctx, ir::Reshape(ctx, x[0], Dims{12}), {after.src(1)});
               return ir::Mul(ctx, flat, flat);
             }},
        Case{"SharedTwice",
             {{3}},
             [](auto& ctx, auto& x) { return ir::Mul(ctx, x[0], ir::Add(ctx, x[0], x[0])); }},
        Case{"MatMul",
             {{3, 4}, {4, 2}},
             [](auto& ctx, auto& x) {
               const UOp a = ir::Reshape(ctx, x[0], Dims{3, 4, 1}),
                         b = ir::Reshape(ctx, x[1], Dims{1, 4, 2});
               return ir::ReduceAxes(ctx, Op::ADD, ir::Mul(ctx, a, b), Dims{1});
             }}),
    [](const auto& info) { return info.param.name; });

class GradientTest : public ::testing::Test {
 protected:
  UOp Vector(int64_t n, int64_t slot = 0, Dtype d = Dtype::F64) {
    return ir::Param(ctx_, slot, d, ir::ShapeArg(ctx_, Dims{n}));
  }
  std::vector<double> Run(UOp u, std::vector<double> x) {
    const auto n = static_cast<int64_t>(x.size());
    return TensorInterpreter(ctx_).Evaluate(u, {HostArray::Of(Dtype::F64, {n}, x)})->ToDoubles();
  }
  UOp One(UOp x) {
    return gradient_of(ir::Reshape(ctx_, ir::ReduceAxes(ctx_, Op::ADD, x, Dims{0}), Dims{}), x_);
  }
  UOp gradient_of(UOp loss, UOp target) {
    auto g = Gradient(ctx_, loss, ctx_.Const(loss.dtype(), 1), std::span<const UOp>(&target, 1));
    EXPECT_TRUE(g.ok()) << g.status();
    return (*g)[0];
  }
  UOpContext ctx_;
  UOp x_ = Vector(3);
};

TEST_F(GradientTest, TiesOfMaxShareEqually) {
  const UOp m = ir::Reshape(ctx_, ir::ReduceAxes(ctx_, Op::MAX, x_, Dims{0}), Dims{});
  EXPECT_THAT(Run(gradient_of(m, x_), {2, 1, 2}), ElementsAre(0.5, 0, 0.5));
  const UOp larger = ir::Alu(ctx_, Op::MAX, {x_, ctx_.Float(Dtype::F64, 0)});
  EXPECT_THAT(Run(One(larger), {-1, 0, 1}), ElementsAre(0, 0.5, 1));
}

TEST_F(GradientTest, TagsSayWhoHasTheGradientOfATie) {
  const UOp zero = ctx_.Float(Dtype::F64, 0);
  auto tagged = [&](UOp a, UOp b, int64_t tag) {
    return ctx_.Make(Op::MAX, Dtype::F64, {a, b}, {}, tag);
  };
  EXPECT_THAT(Run(One(tagged(x_, zero, kTieFirst)), {-1, 0, 1}), ElementsAre(0, 1, 1));
  EXPECT_THAT(Run(One(tagged(x_, zero, kTieSecond)), {-1, 0, 1}), ElementsAre(0, 0, 1));
  EXPECT_THAT(Run(One(tagged(zero, x_, kTieFirst)), {-1, 0, 1}), ElementsAre(0, 0, 1));
  EXPECT_THAT(Run(One(tagged(zero, x_, kTieSecond)), {-1, 0, 1}), ElementsAre(0, 1, 1));
}

TEST_F(GradientTest, DetachSendsTheGradientAnotherWay) {
  const UOp doubled = ir::Mul(ctx_, x_, ctx_.Float(Dtype::F64, 2));
  const UOp other = ctx_.Make(Op::DETACH, Dtype::F64, {x_, doubled});
  EXPECT_THAT(Run(One(ir::Mul(ctx_, other, x_)), {1, 2, 3}), ElementsAre(3, 6, 9));
}

TEST_F(GradientTest, DetachStopsAndOtherPathsGoOn) {
  const UOp d = ctx_.Make(Op::DETACH, Dtype::F64, {x_});
  EXPECT_THAT(Run(One(ir::Mul(ctx_, d, x_)), {1, 2, 3}), ElementsAre(1, 2, 3));
}

TEST_F(GradientTest, CastsKeepTheGradientBetweenFloatsOnly) {
  EXPECT_THAT(Run(One(ir::Cast(ctx_, ir::Cast(ctx_, x_, Dtype::F32), Dtype::F64)), {1, 2, 3}),
              ElementsAre(1, 1, 1));
  EXPECT_THAT(Run(One(ir::Cast(ctx_, ir::Cast(ctx_, x_, Dtype::I32), Dtype::F64)), {1, 2, 3}),
              ElementsAre(0, 0, 0));
}

TEST_F(GradientTest, PowerOfZeroIsFinite) {
  const UOp p = ir::Alu(ctx_, Op::POW, {x_, ir::Expand(ctx_, ctx_.Float(Dtype::F64, 2), Dims{3})});
  EXPECT_THAT(Run(One(p), {0, 1, -3}), ElementsAre(0, 2, -6));
}

TEST_F(GradientTest, UnrelatedTargetHasZeros) {
  const UOp other = Vector(3, 1);
  EXPECT_THAT(
      Run(gradient_of(ir::Reshape(ctx_, ir::ReduceAxes(ctx_, Op::ADD, x_, Dims{0}), Dims{}), other),
          {1, 2, 3}),
      ElementsAre(0, 0, 0));
}

TEST_F(GradientTest, RefusesIntegersAndWrongSeeds) {
  const UOp i = Vector(3, 2, Dtype::I32);
  EXPECT_EQ(Gradient(ctx_, i, i, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Gradient(ctx_, x_, x_, std::vector<UOp>{i}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Gradient(ctx_, x_, ctx_.Float(Dtype::F64, 1), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(GradientTest, NamesTheOpItDoesNotKnow) {
  const UOp loaded = ir::Load(ctx_, ir::Index(ctx_, x_, ctx_.Idx(0)));
  const auto g = Gradient(ctx_, loaded, ctx_.Float(Dtype::F64, 1), std::vector<UOp>{x_});
  EXPECT_EQ(g.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(StatusText(g.status()), ::testing::HasSubstr("LOAD"));
}

TEST_F(GradientTest, DepthIsNoLimit) {
  UOp y = x_;
  for (int i = 0; i < 100'000; ++i) y = ir::Alu(ctx_, Op::NEG, {y});
  EXPECT_THAT(Run(One(y), {1, 2, 3}), ElementsAre(1, 1, 1));
}

}  // namespace
}  // namespace uopd::rules
