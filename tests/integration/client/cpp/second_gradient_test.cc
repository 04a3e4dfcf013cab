// SPDX-License-Identifier: MIT
// Gradients of gradients of the operations of Tensor and functional.h: one case for each op that
// has a rule in core/rules/gradient.cc, and for the compositions that networks use.
#include "tests/unit/client/cpp/ops/op_cases.h"
#include "uopd/functional.h"

namespace uopd::client::second_cases {
namespace {

using Inputs = std::vector<Tensor>;

class SecondGradientTest : public OpCases {
 protected:
  Tensor Doubles(Dims dims, std::vector<double> values) {
    return In(std::move(dims), std::move(values), Dtype::F64);
  }
};

struct Case {
  const char* name;
  std::vector<Dims> inputs;
  std::function<Tensor(const Inputs&)> f;
};

const std::vector<Case>& Cases() {
  static const auto* const cases = new std::vector<Case>{
      {"exp2", {{4}}, [](const Inputs& t) { return t[0].Exp2(); }},
      {"log2", {{4}}, [](const Inputs& t) { return (t[0].Square() + 0.5).Log2(); }},
      {"sin", {{4}}, [](const Inputs& t) { return t[0].Sin(); }},
      {"sqrt", {{4}}, [](const Inputs& t) { return (t[0].Square() + 0.5).Sqrt(); }},
      {"reciprocal", {{4}}, [](const Inputs& t) { return (t[0].Square() + 0.5).Reciprocal(); }},
      {"neg", {{4}}, [](const Inputs& t) { return t[0].Neg() * t[0]; }},
      {"sub", {{2, 2}, {2}}, [](const Inputs& t) { return (t[0] - t[1]).Square(); }},
      {"mul", {{2, 2}, {2}}, [](const Inputs& t) { return t[0] * t[1] * t[0]; }},
      {"div", {{2, 2}, {2}}, [](const Inputs& t) { return t[0] / (t[1].Square() + 1.0); }},
      {"max", {{5}, {5}}, [](const Inputs& t) { return t[0].Maximum(t[1]) * t[0]; }},
      {"pow", {{4}, {4}}, [](const Inputs& t) { return (t[0].Square() + 0.5).Pow(t[1]); }},
      {"pow number", {{4}}, [](const Inputs& t) { return t[0].Pow(3); }},
      {"where",
       {{5}, {5}},
       [](const Inputs& t) { return Where(t[0] < t[1], t[0] * t[1], t[1].Square()); }},
      {"cast", {{4}}, [](const Inputs& t) { return t[0].Square().Cast(Dtype::F64) * t[0]; }},
      {"contiguous", {{4}}, [](const Inputs& t) { return t[0].Square().Contiguous() * t[0]; }},
      {"contiguous backward",
       {{4}},
       [](const Inputs& t) { return t[0].Square().ContiguousBackward() * t[0]; }},
      {"expand", {{3, 1}}, [](const Inputs& t) { return t[0].Expand({3, 4}).Square() * t[0]; }},
      {"permute", {{2, 3}}, [](const Inputs& t) { return t[0].Transpose().MatMul(t[0]); }},
      {"pad", {{3}}, [](const Inputs& t) { return t[0].Square().Pad({1}, {2}, 5).Square(); }},
      {"shrink", {{5}}, [](const Inputs& t) { return t[0].Slice({Range{.step = -2}}).Pow(3); }},
      {"stack",
       {{3}, {3}},
       [](const Inputs& t) {
         const Tensor both[] = {t[0] * t[1], t[1].Square()};
         return Stack(both, 1).Square();
       }},
      {"concat",
       {{2}, {3}},
       [](const Inputs& t) {
         const Tensor both[] = {t[0].Square(), t[1]};
         return Concat(both).Square();
       }},
      {"sum", {{2, 3}}, [](const Inputs& t) { return t[0].Square().Sum({1}).Square(); }},
      {"max of axis", {{2, 4}}, [](const Inputs& t) { return t[0].Max({1}) * t[0].Sum({1}); }},
      {"prod", {{2, 4}}, [](const Inputs& t) { return t[0].Prod({1}); }},
      {"cumsum", {{2, 4}}, [](const Inputs& t) { return t[0].CumSum(1).Square(); }},
      {"std", {{2, 4}}, [](const Inputs& t) { return t[0].Std({1}); }},
      {"sort", {{2, 4}}, [](const Inputs& t) { return t[0].Sort().first * t[0]; }},
      {"windows", {{6}}, [](const Inputs& t) { return t[0].Windows({3}, {2}, {1}).Square(); }},
      {"sigmoid", {{5}}, [](const Inputs& t) { return t[0].Sigmoid(); }},
      {"tanh", {{5}}, [](const Inputs& t) { return t[0].Tanh(); }},
      {"gelu", {{5}}, [](const Inputs& t) { return t[0].Gelu(); }},
      {"silu", {{5}}, [](const Inputs& t) { return t[0].Silu(); }},
      {"softmax", {{2, 3}}, [](const Inputs& t) { return t[0].Softmax(); }},
      {"log softmax", {{2, 3}}, [](const Inputs& t) { return t[0].LogSoftmax(); }},
      {"conv",
       {{1, 2, 4}, {2, 2, 2}},
       [](const Inputs& t) { return fn::Conv(t[0], t[1], {}, {.stride = {2}, .padding = {1}}); }},
      {"max pool",
       {{1, 1, 5}},
       [](const Inputs& t) { return fn::MaxPool(t[0], {2}) * fn::AvgPool(t[0], {2}); }},
      {"layer norm",
       {{2, 3}, {3}, {3}},
       [](const Inputs& t) { return fn::LayerNorm(t[0], t[1], t[2]); }},
      {"rms norm", {{2, 3}, {3}}, [](const Inputs& t) { return fn::RmsNorm(t[0], t[1]); }},
      {"attention",
       {{1, 2, 2}, {1, 2, 2}, {1, 2, 2}},
       [](const Inputs& t) { return fn::Attention(t[0], t[1], t[2], {}, {.causal = true}); }},
  };
  return *cases;
}

TEST_F(SecondGradientTest, OfEveryOp) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    std::vector<std::pair<Dims, std::vector<double>>> inputs;
    for (size_t i = 0; i < c.inputs.size(); ++i)
      inputs.push_back(Input(c.inputs[i], static_cast<int>(i) + 3));
    CheckSecondGradient(inputs, c.f);
  }
}

// Hessian of a quadratic form, exactly.
TEST_F(SecondGradientTest, HessianRows) {
  const Tensor a = Doubles({2, 2}, {3, 1, 1, 2}), x = Doubles({2}, {0.5, -1});
  const auto g = Gradient((x * a.MatMul(x)).Sum() * 0.5, std::span(&x, 1));
  ASSERT_TRUE(g.ok());
  for (int64_t i = 0; i < 2; ++i) {
    const auto row = Gradient((*g)[0].Select(0, i), std::span(&x, 1));
    ASSERT_TRUE(row.ok()) << row.status();
    EXPECT_EQ(Out((*row)[0]), Out(a.Select(0, i)));
  }
}

// Third derivatives, of a polynomial.
TEST_F(SecondGradientTest, AThirdTime) {
  const Tensor x = Doubles({1}, {2});
  Tensor y = x.Pow(4).Sum();
  for (const double want : {32.0, 48.0, 48.0, 24.0, 0.0}) {
    const auto g = Gradient(y, std::span(&x, 1));
    ASSERT_TRUE(g.ok()) << g.status();
    y = (*g)[0].Sum();
    EXPECT_EQ(Out(y + 0.0)[0], want);  // y itself keeps its graph
  }
}

// Zeros: a power, and a running product, whose slopes there are found without dividing by them.
TEST_F(SecondGradientTest, AtZeros) {
  const Tensor x = Doubles({2}, {0, 3});
  for (const auto& [power, want] : {std::pair{2, 2.0}, {3, 0.0}, {1, 0.0}}) {
    const auto g = Gradient(x.Pow(power).Sum(), std::span(&x, 1));
    ASSERT_TRUE(g.ok());
    const auto h = Gradient((*g)[0].Select(0, 0), std::span(&x, 1));
    ASSERT_TRUE(h.ok());
    EXPECT_EQ(Out((*h)[0])[0], want) << power;
  }
}

}  // namespace
}  // namespace uopd::client::second_cases
