// SPDX-License-Identifier: MIT
// Whole training steps: gradients, optimisers, layers, and what a step costs on the wire.
#include <cmath>

#include "tests/support/mlp_reference.h"
#include "tests/unit/client/cpp/fixture.h"
#include "uopd/nn.h"
#include "uopd/optim.h"

namespace uopd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TrainingTest : public ClientTest {};

TEST_F(TrainingTest, BackwardAddsUp) {
  Tensor w = Ramp({3}, 1, 1);
  w.RequireGrad();
  ASSERT_TRUE((w * w).Sum().Backward().ok());
  EXPECT_THAT(Out(w.grad()), ElementsAre(2, 4, 6));
  ASSERT_TRUE((w * 1.0).Sum().Backward().ok());
  EXPECT_THAT(Out(w.grad()), ElementsAre(3, 5, 7));
  w.ClearGrad();
  EXPECT_EQ(w.grad().state(), nullptr);
}

TEST_F(TrainingTest, EqualLeavesHaveTheirOwnGradients) {
  Tensor a = client_.Zeros({2}), b = client_.Zeros({2});
  a.RequireGrad(), b.RequireGrad();
  ASSERT_TRUE((a * 2.0 + b * 5.0).Sum().Backward().ok());
  EXPECT_THAT(Out(a.grad()), ElementsAre(2, 2));
  EXPECT_THAT(Out(b.grad()), ElementsAre(5, 5));
}

TEST_F(TrainingTest, WithoutLeavesEveryLiveFloatGetsAGradient) {
  Tensor x = Ramp({3}, 1, 1), frozen = Ramp({3}, 2, 1), other = Ramp({3}, 5, 1);
  frozen.RequireGrad(false);
  const Tensor i = In({3}, {1, 2, 3}, Dtype::I32);
  const Tensor y = x * frozen, loss = (y * i.Cast(Dtype::F32)).Sum();
  ASSERT_TRUE(loss.Backward().ok());
  EXPECT_THAT(Out(x.grad()), ElementsAre(1, 6, 15));
  EXPECT_THAT(Out(y.grad()), ElementsAre(1, 2, 3));
  EXPECT_THAT(Out(loss.grad()), ElementsAre(1));
  for (const Tensor& t : {frozen, other, i}) EXPECT_EQ(t.grad().state(), nullptr);
  // A leaf that the loss was not computed from changes nothing; with one below the loss only leaves
  // count.
  other.RequireGrad();
  ASSERT_TRUE((x * 2.0).Sum().Backward().ok());
  EXPECT_THAT(Out(x.grad()), ElementsAre(3, 8, 17));
  EXPECT_EQ(other.grad().state(), nullptr);
  ASSERT_TRUE((x * other).Sum().Backward().ok());
  EXPECT_THAT(Out(other.grad()), ElementsAre(1, 2, 3));
  EXPECT_THAT(Out(x.grad()), ElementsAre(3, 8, 17));
  EXPECT_EQ(frozen.grad_wish(), std::optional(false));
  EXPECT_EQ(x.grad_wish(), std::nullopt);
  Tensor whole = i;
  EXPECT_TRUE(whole.RequireGrad(false).status().ok());
}

TEST_F(TrainingTest, ApartTensorsHaveTheirOwnGradients) {
  const Tensor a = client_.Ones({2}).Apart(), b = client_.Ones({2}).Apart();
  ASSERT_TRUE((a * b * 3.0).Sum().Backward().ok());
  EXPECT_THAT(Out(a.grad()), ElementsAre(3, 3));
  EXPECT_THAT(Out(a * b), ElementsAre(1, 1));
}

TEST_F(TrainingTest, GradientsCanBeSet) {
  Tensor w = Ramp({2}, 1, 1);
  w.RequireGrad();
  ASSERT_TRUE(w.SetGrad(In({2}, {10, 20})).ok());
  ASSERT_TRUE((w * 2.0).Sum().Backward().ok());
  EXPECT_THAT(Out(w.grad()), ElementsAre(12, 22));
  EXPECT_EQ(w.SetGrad(Ramp({3})).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(w.SetGrad(In({2}, {1, 2}, Dtype::F64)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(w.SetGrad(Tensor()).ok());
}

TEST_F(TrainingTest, GradientSaysWhatIsWrong) {
  Tensor w = Ramp({3});
  EXPECT_THAT(StatusText(Gradient(w, {}).status()), HasSubstr("not one element"));
  const Tensor loss = In({1}, {2});
  ASSERT_TRUE(loss.Realize().ok());
  EXPECT_EQ(Gradient(loss, {}).status().code(), absl::StatusCode::kFailedPrecondition);
  Tensor i = In({2}, {1, 2}, Dtype::I32);
  EXPECT_FALSE(i.RequireGrad().status().ok());
  Tensor p = Ramp({2});
  p.RequireGrad();
  EXPECT_EQ(Sgd(client_, {p})->Step().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(TrainingTest, SgdWithMomentumAndDecayAgainstLoops) {
  for (bool nesterov : {false, true}) {
    Tensor w = In({2}, {1, -2}, Dtype::F64);
    w.RequireGrad();
    auto sgd =
        Sgd(client_, {w}, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = nesterov});
    double p[2] = {1, -2}, velocity[2] = {0, 0};
    for (int step = 0; step < 5; ++step) {
      ASSERT_TRUE((w * w * w).Sum().Backward().ok());
      ASSERT_TRUE(sgd->Step().ok());
      for (int i = 0; i < 2; ++i) {
        const double g = 3 * p[i] * p[i] + 0.01 * p[i];
        velocity[i] = 0.9 * velocity[i] + g;
        p[i] -= 0.1 * (nesterov ? g + 0.9 * velocity[i] : velocity[i]);
      }
      EXPECT_THAT(Out(w), ElementsAre(::testing::DoubleNear(p[0], 1e-9),
                                      ::testing::DoubleNear(p[1], 1e-9)));
    }
  }
}

TEST_F(TrainingTest, AFailedStepKeepsTheWeights) {
  Tensor w = Ramp({2}, 1, 1);
  w.RequireGrad();
  auto adam = Adam(client_, {w});
  ASSERT_TRUE(w.Realize().ok());
  ASSERT_TRUE((w * w).Sum().Backward().ok());
  daemon_->fail_with = absl::UnavailableError("gone");
  EXPECT_EQ(adam->Step().code(), absl::StatusCode::kUnavailable);
  daemon_->fail_with = absl::OkStatus();
  EXPECT_THAT(Out(w), ElementsAre(1, 2));
  ASSERT_TRUE((w * w).Sum().Backward().ok());
  EXPECT_TRUE(adam->Step().ok());
  // Later steps do not wait. The error comes with the next call, and once.
  const std::vector<double> before = Out(w), moments = Out(adam->state()[2]);
  ASSERT_TRUE((w * w).Sum().Backward().ok());
  daemon_->fail_with = absl::UnavailableError("gone");
  EXPECT_TRUE(adam->Step().ok());
  daemon_->fail_with = absl::OkStatus();
  EXPECT_EQ(client_.Sync().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(client_.Sync().ok());
  EXPECT_EQ(Out(w), before);
  EXPECT_EQ(Out(adam->state()[2]), moments);
  ASSERT_TRUE((w * w).Sum().Backward().ok());
  EXPECT_TRUE(adam->Step().ok());
  EXPECT_NE(Out(w), before);
}

TEST_F(TrainingTest, SequentialRunsInOrder) {
  Sequential model;
  model.Add(Linear(client_, 3, 4))
      .Add([](const Tensor& x) { return x.Relu(); })
      .Add(Linear(client_, 4, 2, false));
  EXPECT_EQ(model.parameters().size(), 3u);
  EXPECT_EQ(model(Ramp({5, 3})).dims(), (Dims{5, 2}));
}

// Twenty steps of an MLP agree with plain loops in double that start from the same weights, and
// from the second step on send no graph and, besides the batch, little.
void CompareWithReference(Client& client, const InterpreterExecutor& daemon, bool use_adam) {
  constexpr int64_t kIn = 9, kHidden = 11, kOut = 5, kBatch = 6;
  Linear first(client, kIn, kHidden), second(client, kHidden, kOut);
  std::vector<Tensor> parameters = {first.weight, first.bias, second.weight, second.bias};
  auto optimizer =
      use_adam ? Adam(client, parameters, {.lr = 0.01}) : Sgd(client, parameters, {.lr = 0.3});
  std::vector<Tensor> all = parameters;
  all.insert(all.end(), optimizer->state().begin(), optimizer->state().end());
  ASSERT_TRUE(Realize(all).ok());
  test::MlpReference reference;
  reference.in = kIn, reference.hidden = kHidden, reference.out = kOut;
  reference.rule = use_adam ? test::MlpReference::kAdam : test::MlpReference::kSgd;
  reference.lr = use_adam ? 0.01 : 0.3;
  for (auto [to, from] : {std::pair{&reference.w1, &parameters[0]},
                          {&reference.b1, &parameters[1]},
                          {&reference.w2, &parameters[2]},
                          {&reference.b2, &parameters[3]}}) {
    auto values = from->ToHost<float>();
    ASSERT_TRUE(values.ok());
    to->assign(values->begin(), values->end());
  }
  const uint64_t downloads = client.stats().downloads;
  double first_loss = 0, last_loss = 0;
  uint64_t graphs_after_first = 0;
  for (int step = 0; step < 20; ++step) {
    std::vector<float> x;
    std::vector<uint8_t> y;
    for (int64_t i = 0; i < kBatch * kIn; ++i)
      x.push_back(
          static_cast<float>(ir::Threefry(static_cast<uint64_t>(i + step % 3 * 1000), 5) % 1000) /
          1000);
    for (int64_t i = 0; i < kBatch; ++i) y.push_back(static_cast<uint8_t>((i + step % 3) % kOut));
    const uint64_t sent = client.traffic().execute_bytes;
    const Tensor loss = [&] {
      const Tensor scores = second(first(client.FromHost(x, {kBatch, kIn})).Relu());
      return scores.CrossEntropy(client.FromHost(y, {kBatch}));
    }();
    ASSERT_TRUE(loss.Backward().ok());
    const absl::Status s = optimizer->Step({loss});
    ASSERT_TRUE(s.ok()) << s;
    const double want = reference.Step(std::vector<double>(x.begin(), x.end()),
                                       std::vector<int>(y.begin(), y.end()));
    const float got = *loss.Item<float>();
    EXPECT_NEAR(got, want, 1e-3 * want) << "step " << step;
    if (step == 0)
      first_loss = want, graphs_after_first = client.stats().graphs_sent;
    else
      EXPECT_LT(client.traffic().execute_bytes - sent - x.size() * 4 - y.size(), 2048u);
    if (step % 3 == 0) last_loss = want;  // of the first batch again
  }
  EXPECT_EQ(client.stats().graphs_sent, graphs_after_first);
  EXPECT_EQ(client.stats().downloads, downloads) << "losses come back with the step";
  EXPECT_LT(last_loss, first_loss);
  EXPECT_LE(daemon.buffers.size(), all.size() + 1) << "weights are overwritten, batches are freed";
}

TEST_F(TrainingTest, SgdLossCurveMatchesTheReference) {
  CompareWithReference(client_, *daemon_, false);
}
TEST_F(TrainingTest, AdamLossCurveMatchesTheReference) {
  CompareWithReference(client_, *daemon_, true);
}

}  // namespace
}  // namespace uopd::client
