// SPDX-License-Identifier: MIT
// The slope of functions where they have a kink: what PyTorch documents or computes, see
// docs/tensor_methods.md.
#include "tests/unit/client/cpp/gradient_check.h"
#include "uopd/activations.h"
#include "uopd/losses.h"
#include "uopd/math.h"

namespace uopd::client {
namespace {

struct Kink {
  const char* name;
  double at, slope;
  std::function<Tensor(const Tensor&)> f;
};

const Kink kKinks[] = {
    {"relu", 0, 0, [](const Tensor& x) { return x.Relu(); }},
    {"relu of -0", -0.0, 0, [](const Tensor& x) { return x.Relu(); }},
    {"maximum", 0, 0.5, [](const Tensor& x) { return x.Maximum(0.0); }},
    {"minimum", 0, 0.5, [](const Tensor& x) { return x.Minimum(0.0); }},
    {"at least", 2, 1, [](const Tensor& x) { return x.AtLeast(2.0); }},
    {"at most", 2, 1, [](const Tensor& x) { return x.AtMost(2.0); }},
    {"clip, low", -1, 1, [](const Tensor& x) { return x.Clip(-1, 2); }},
    {"clip, high", 2, 1, [](const Tensor& x) { return x.Clip(-1, 2); }},
    {"clip, both", 1, 1, [](const Tensor& x) { return x.Clip(1, 1); }},
    {"abs", 0, 0, [](const Tensor& x) { return x.Abs(); }},
    {"copysign", 0, 0, [](const Tensor& x) { return fn::Copysign(x, 1.0); }},
    {"copysign of -0", -0.0, 0, [](const Tensor& x) { return fn::Copysign(x, 1.0); }},
    {"copysign, another sign", 3, -1, [](const Tensor& x) { return fn::Copysign(x, -1.0); }},
    {"relu6, low", 0, 0, [](const Tensor& x) { return fn::Relu6(x); }},
    {"relu6, high", 6, 0, [](const Tensor& x) { return fn::Relu6(x); }},
    {"hardtanh, low", -1, 0, [](const Tensor& x) { return fn::HardTanh(x); }},
    {"hardtanh, high", 1, 0, [](const Tensor& x) { return fn::HardTanh(x); }},
    {"hardsigmoid, low", -3, 0, [](const Tensor& x) { return fn::HardSigmoid(x); }},
    {"hardsigmoid, high", 3, 0, [](const Tensor& x) { return fn::HardSigmoid(x); }},
    {"hardswish, low", -3, 0, [](const Tensor& x) { return fn::HardSwish(x); }},
    {"hardswish, high", 3, 1, [](const Tensor& x) { return fn::HardSwish(x); }},
    {"leaky relu", 0, 0.25, [](const Tensor& x) { return fn::LeakyRelu(x, 0.25); }},
    {"prelu", 0, 0.25, [](const Tensor& x) { return fn::Prelu(x, x.Detach() * 0.0 + 0.25); }},
    {"threshold", 1, 0, [](const Tensor& x) { return fn::Threshold(x, 1, 7); }},
    {"hardshrink", 0.5, 0, [](const Tensor& x) { return fn::HardShrink(x, 0.5); }},
    {"softshrink", 0.5, 0, [](const Tensor& x) { return fn::SoftShrink(x, 0.5); }},
    {"elu", 0, 2, [](const Tensor& x) { return fn::Elu(x, 2); }},
    {"softsign", 0, 1, [](const Tensor& x) { return fn::Softsign(x); }},
    {"l1 loss", 0, 0, [](const Tensor& x) { return fn::L1Loss(x, 0.0 * x.Detach()); }},
    {"hinge loss", 1, -1, [](const Tensor& x) { return fn::HingeLoss(x, x.Detach() * 0.0 + 1.0); }},
    {"hinge embedding loss", 1, -1,
     [](const Tensor& x) { return fn::HingeEmbeddingLoss(x, x.Detach() * 0.0 - 1.0); }},
};

class KinkTest : public OperationTest {};

TEST_F(KinkTest, SlopesAreThoseOfPyTorch) {
  for (const Kink& k : kKinks) {
    for (const Dtype d : {Dtype::F32, Dtype::F64, Dtype::F16}) {
      const Tensor x = In({1}, {k.at}, d), targets[] = {x};
      const auto slope = Gradient(k.f(x).Sum(), targets);
      ASSERT_TRUE(slope.ok()) << k.name << ": " << slope.status();
      EXPECT_EQ(Out((*slope)[0]), std::vector<double>{k.slope}) << k.name << " " << ir::Name(d);
    }
  }
}

// Nobody loses or gains: the slopes of both operands of a tie add up to 1.
TEST_F(KinkTest, BothOperands) {
  const Tensor a = In({3}, {1, 2, 3}, Dtype::F64), b = In({3}, {2, 2, 2}, Dtype::F64);
  const Tensor targets[] = {a, b};
  auto slopes = [&](const Tensor& y) {
    const auto g = Gradient(y.Sum(), targets);
    EXPECT_TRUE(g.ok()) << g.status();
    std::vector<double> out = Out((*g)[0]);
    for (double v : Out((*g)[1])) out.push_back(v);
    return out;
  };
  using Slopes = std::vector<double>;
  EXPECT_EQ(slopes(a.Maximum(b)), (Slopes{0, 0.5, 1, 1, 0.5, 0}));
  EXPECT_EQ(slopes(a.Minimum(b)), (Slopes{1, 0.5, 0, 0, 0.5, 1}));
  EXPECT_EQ(slopes(a.AtLeast(b)), (Slopes{0, 1, 1, 1, 0, 0}));
  EXPECT_EQ(slopes(a.AtMost(b)), (Slopes{1, 1, 0, 0, 0, 1}));
}

TEST_F(KinkTest, WhereThereIsNoValueThereIsNoSlope) {
  for (const Dtype d : {Dtype::F32, Dtype::F64, Dtype::F16}) {
    for (const double at : {0.5, 0.0, -0.5}) {
      const Tensor x = In({1}, {at}, d), targets[] = {x};
      const Tensor y = fn::Acosh(x);
      const auto slope = Gradient(y.Sum(), targets);
      ASSERT_TRUE(slope.ok()) << slope.status();
      EXPECT_TRUE(std::isnan(Out(y)[0])) << at;
      EXPECT_TRUE(std::isnan(Out((*slope)[0])[0])) << at;
    }
  }
}

TEST_F(KinkTest, SlopeWithoutAValue) {
  for (const double at : {-1.5, -2.5, -300.0, -1e6}) {
    const Tensor x = In({1}, {at}, Dtype::F64), targets[] = {x};
    const Tensor y = fn::Acosh(x);
    const auto slope = Gradient(y.Sum(), targets);
    ASSERT_TRUE(slope.ok()) << slope.status();
    EXPECT_TRUE(std::isnan(Out(y)[0])) << at;
    EXPECT_NEAR(Out((*slope)[0])[0] * std::sqrt(at * at - 1), 1, 1e-12) << at;
  }
}

TEST_F(KinkTest, NanStays) {
  const Tensor x = In({1}, {NAN});
  for (const Tensor& y : {x.Relu(), x.Clip(0, 1), x.AtLeast(0.0), x.AtMost(0.0), fn::Relu6(x),
                          fn::HardTanh(x), fn::LeakyRelu(x), fn::HardSigmoid(x)})
    EXPECT_TRUE(std::isnan(Out(y)[0]));
}

}  // namespace
}  // namespace uopd::client
