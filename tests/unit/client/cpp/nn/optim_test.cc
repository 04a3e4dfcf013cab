// SPDX-License-Identifier: MIT
// Optimisers against plain loops in double over several steps, and learning rates that change.
#include "uopd/optim.h"

#include <cmath>
#include <functional>

#include "tests/unit/client/cpp/gradient_check.h"
#include "uopd/lr_schedule.h"

namespace uopd::client {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using Values = std::vector<double>;

constexpr size_t kRows = 3, kColumns = 2, kSize = kRows * kColumns;

double EuclideanLength(const Values& v) {
  double sum = 0;
  for (double x : v) sum += x * x;
  return std::sqrt(sum);
}

// Newton-Schulz iterations of a kRows x kColumns matrix as the product with columns: x (c0 + c1 s +
// c2 s^2) with s = x^T x.
Values OrthogonalByLoops(Values x) {
  const double c[3] = {3.4445, -4.775, 2.0315}, length = EuclideanLength(x) + 1e-7;
  for (double& v : x) v /= length;
  for (int step = 0; step < 5; ++step) {
    double s[2][2] = {}, s2[2][2] = {};
    for (size_t i = 0; i < 2; ++i)
      for (size_t j = 0; j < 2; ++j)
        for (size_t r = 0; r < kRows; ++r) s[i][j] += x[r * 2 + i] * x[r * 2 + j];
    for (size_t i = 0; i < 2; ++i)
      for (size_t j = 0; j < 2; ++j)
        for (size_t k = 0; k < 2; ++k) s2[i][j] += s[i][k] * s[k][j];
    Values y(kSize);
    for (size_t r = 0; r < kRows; ++r)
      for (size_t j = 0; j < 2; ++j)
        for (size_t k = 0; k < 2; ++k)
          y[r * 2 + j] += x[r * 2 + k] * ((k == j ? c[0] : 0) + c[1] * s[k][j] + c[2] * s2[k][j]);
    x = y;
  }
  return x;
}

struct OptimReference {
  Values p, v = Values(kSize), m = Values(kSize);
  int step = 0;
};
using OptimRule = std::function<void(OptimReference&, const Values& g, double lr)>;

class OptimTest : public OperationTest {
 protected:
  // Six steps on the loss sum p^3 + 2 p with a rate that halves after three steps.
  void Check(const std::function<std::unique_ptr<Optimizer>(std::vector<Tensor>)>& make,
             const OptimRule& rule, Values start = {1, -0.6, 0.5, 0.75, -0.25, 1.5}) {
    OptimReference want{.p = start};
    Tensor p = In({kRows, kColumns}, start, Dtype::F64);
    p.RequireGrad();
    auto optimizer = make({p});
    ASSERT_TRUE(Realize(optimizer->state()).ok());
    double lr = 0.1;
    uint64_t graphs = 0;
    for (int step = 0; step < 6; ++step) {
      if (step == 3) {
        lr = 0.05;
        ASSERT_TRUE(optimizer->SetLr(lr).ok());
        graphs += 1;  // of the assignment
      }
      ASSERT_TRUE((p * p * p + p * 2.0).Sum().Backward().ok());
      const absl::Status s = optimizer->Step();
      ASSERT_TRUE(s.ok()) << s;
      Values g(kSize);
      for (size_t i = 0; i < kSize; ++i) g[i] = 3 * want.p[i] * want.p[i] + 2;
      ++want.step;
      rule(want, g, lr);
      EXPECT_THAT(Out(p), Pointwise(DoubleNear(1e-9), want.p)) << "step " << step;
      if (step == 0) graphs = client_.stats().graphs_sent;
    }
    EXPECT_LE(client_.stats().graphs_sent, graphs);
  }
};

TEST_F(OptimTest, SgdInAllForms) {
  for (int form = 0; form < 8; ++form) {
    const bool nesterov = form & 1, classic = form & 2;
    const double momentum = form & 4 ? 0.9 : 0;
    SCOPED_TRACE(form);
    Check(
        [&](std::vector<Tensor> p) {
          return Sgd(client_, std::move(p),
                     {.lr = 0.1,
                      .momentum = momentum,
                      .weight_decay = 0.02,
                      .nesterov = nesterov,
                      .classic = classic});
        },
        [&](OptimReference& r, const Values& g, double lr) {
          for (size_t i = 0; i < kSize; ++i) {
            double d = g[i] + 0.02 * r.p[i];
            if (classic) d *= lr;
            r.v[i] = momentum * r.v[i] + d;
            if (momentum != 0) d = nesterov ? d + momentum * r.v[i] : r.v[i];
            r.p[i] -= classic ? d : lr * d;
          }
        });
  }
}

TEST_F(OptimTest, Lars) {
  for (Values start : {Values{1, -0.6, 0.5, 0.75, -0.25, 1.5}, Values(kSize)}) {  // |p| = 0 too
    Check(
        [&](std::vector<Tensor> p) {
          return Lars(client_, std::move(p), {.lr = 0.1, .weight_decay = 0.02, .trust = 0.3});
        },
        [](OptimReference& r, const Values& g, double lr) {
          const double a = EuclideanLength(r.p), b = EuclideanLength(g);
          const double trust = a > 0 && b > 0 ? 0.3 * a / (b + 0.02 * a) : 1;
          for (size_t i = 0; i < kSize; ++i) {
            r.v[i] = 0.9 * r.v[i] + (g[i] + 0.02 * r.p[i]) * trust * lr;
            r.p[i] -= r.v[i];
          }
        },
        start);
  }
}

TEST_F(OptimTest, Muon) {
  Check([&](std::vector<Tensor> p) { return Muon(client_, std::move(p), {.lr = 0.1}); },
        [](OptimReference& r, const Values& g, double lr) {
          Values step(kSize);
          for (size_t i = 0; i < kSize; ++i) {
            r.v[i] = 0.95 * r.v[i] + g[i];
            step[i] = g[i] + 0.95 * r.v[i];
          }
          step = OrthogonalByLoops(step);
          for (size_t i = 0; i < kSize; ++i) r.p[i] -= lr * step[i] + 0.1 * lr * r.p[i];
        });
}

TEST_F(OptimTest, AdamAdamWAndLamb) {
  for (int form = 0; form < 3; ++form) {
    const double decay = form == 0 ? 0 : 0.01, epsilon = form == 2 ? 1e-6 : 1e-8;
    SCOPED_TRACE(form);
    Check(
        [&](std::vector<Tensor> p) {
          if (form == 2) return Lamb(client_, std::move(p), {.lr = 0.1, .weight_decay = decay});
          return form == 0 ? Adam(client_, std::move(p), {.lr = 0.1})
                           : AdamW(client_, std::move(p), {.lr = 0.1, .weight_decay = decay});
        },
        [&](OptimReference& r, const Values& g, double lr) {
          Values step(kSize);
          for (size_t i = 0; i < kSize; ++i) {
            r.m[i] = 0.9 * r.m[i] + 0.1 * g[i];
            r.v[i] = 0.999 * r.v[i] + 0.001 * g[i] * g[i];
            const double m = r.m[i] / (1 - std::pow(0.9, r.step)),
                         v = r.v[i] / (1 - std::pow(0.999, r.step));
            step[i] = m / (std::sqrt(v) + epsilon) + decay * r.p[i];
          }
          const double trust = form == 2 ? EuclideanLength(r.p) / EuclideanLength(step) : 1;
          for (size_t i = 0; i < kSize; ++i) r.p[i] -= lr * trust * step[i];
        });
  }
}

TEST_F(OptimTest, GroupsHaveTheirOwnOptionsAndOneRequest) {
  Tensor a = In({2}, {1, 2}), b = In({}, {3});
  a.RequireGrad(), b.RequireGrad();
  std::vector<std::shared_ptr<Optimizer>> members;
  members.push_back(Sgd(client_, {a}, {.lr = 0.5}));
  members.push_back(Sgd(client_, {b}, {.lr = 0.25}));
  OptimizerGroup group(std::move(members));
  ASSERT_TRUE(Realize({a, b}).ok());
  ASSERT_TRUE((a.Sum() + b * 2.0).Backward().ok());
  const uint64_t before = client_.stats().executes;
  ASSERT_TRUE(group.Step().ok());
  EXPECT_EQ(client_.stats().executes, before + 1);
  EXPECT_EQ(Out(a), (Values{0.5, 1.5}));
  EXPECT_EQ(Out(b), (Values{2.5}));
  EXPECT_EQ(b.dims(), Dims());
  ASSERT_TRUE(group.SetLr(1).ok());
  ASSERT_TRUE((a.Sum() + b * 2.0).Backward().ok());
  ASSERT_TRUE(group.Step().ok());
  EXPECT_EQ(Out(a), (Values{-0.5, 0.5}));
  EXPECT_EQ(Out(b), (Values{0.5}));
}

TEST_F(OptimTest, GoesOnWithTheStateOfAnother) {
  Tensor a = In({2}, {1, 2}), b = In({2}, {1, 2});
  a.RequireGrad(), b.RequireGrad();
  const auto step = [](Tensor& t, Optimizer& optimizer) {
    ASSERT_TRUE((t.Square() * t).Sum().Backward().ok());
    ASSERT_TRUE(optimizer.Step().ok());
  };
  auto adam = Adam(client_, {a}, {.lr = 0.5});
  step(a, *adam);
  b.Assign(a + 0.0);
  auto other = Adam(client_, {b}, {.lr = 0});
  const std::vector<Tensor> state = adam->state();
  std::vector<Tensor> copies;
  for (const Tensor& t : state) copies.push_back(t + 0.0);
  ASSERT_TRUE(other->UseState(copies).ok());
  for (int i = 0; i < 3; ++i) {
    step(a, *adam);
    step(b, *other);
    EXPECT_EQ(Out(a), Out(b)) << i;
  }
  EXPECT_EQ(Out(copies[2]), Out(state[2]));
  EXPECT_EQ(Out(other->lr()), (Values{0.5}));
  EXPECT_THAT(StatusText(other->UseState({state[0]})),
              HasSubstr("1 tensors of state for an optimiser that has 5"));
  copies[3] = In({3}, {1, 2, 3});
  EXPECT_THAT(StatusText(other->UseState(copies)), HasSubstr("state 3 is a tensor of"));
  Client another(std::make_shared<InterpreterExecutor>());
  copies[0] = another.Ones(state[0].dims());
  EXPECT_THAT(StatusText(other->UseState(copies)), HasSubstr("state 0 belongs to another client"));
}

TEST_F(OptimTest, RefusesRatesThatAreNone) {
  Tensor a = In({2}, {1, 2});
  a.RequireGrad();
  auto sgd = Sgd(client_, {a}, {.lr = -1});
  ASSERT_TRUE(a.Sum().Backward().ok());
  EXPECT_THAT(StatusText(sgd->Step()), HasSubstr("the learning rate is -1"));
  EXPECT_FALSE(sgd->SetLr(NAN).ok());
  EXPECT_TRUE(sgd->SetLr(0.5).ok());
  ASSERT_TRUE(sgd->Step().ok());
  EXPECT_EQ(Out(a), (Values{0.5, 1.5}));
}

TEST_F(OptimTest, Schedules) {
  EXPECT_EQ(ConstantLr(0.3)(1000), 0.3);
  EXPECT_DOUBLE_EQ(StepLr(1, 10)(9), 1);
  EXPECT_DOUBLE_EQ(StepLr(1, 10)(25), 0.01);
  EXPECT_DOUBLE_EQ(ExponentialLr(2, 0.5)(3), 0.25);
  const LrSchedule cosine = CosineLr(1, 8, 0.2);
  EXPECT_DOUBLE_EQ(cosine(0), 1);
  EXPECT_DOUBLE_EQ(cosine(4), 0.6);
  EXPECT_DOUBLE_EQ(cosine(2), 0.2 + 0.4 * (1 + std::sqrt(0.5)));
  EXPECT_DOUBLE_EQ(cosine(8), 0.2);
  EXPECT_DOUBLE_EQ(cosine(100), 0.2);
  const LrSchedule warm = WarmupCosineLr(1, 4, 12);
  EXPECT_DOUBLE_EQ(warm(0), 0.25);
  EXPECT_DOUBLE_EQ(warm(3), 1);
  EXPECT_DOUBLE_EQ(warm(4), 1);
  EXPECT_DOUBLE_EQ(warm(8), 0.5);
  EXPECT_DOUBLE_EQ(warm(12), 0);
  const LrSchedule cycle = OneCycleLr(1, 10);
  EXPECT_DOUBLE_EQ(cycle(0), 0.04);
  EXPECT_DOUBLE_EQ(cycle(1), 0.52);
  EXPECT_DOUBLE_EQ(cycle(2), 1);
  EXPECT_DOUBLE_EQ(cycle(9), 4e-6);
  Tensor a = In({1}, {1});
  a.RequireGrad();
  auto sgd = Sgd(client_, {a});
  LrScheduler scheduler(*sgd, StepLr(0.5, 1, 0.5));
  ASSERT_TRUE(scheduler.Start().ok());
  EXPECT_EQ(Out(sgd->lr()), (Values{0.5}));
  ASSERT_TRUE(scheduler.Step().ok());
  EXPECT_EQ(Out(sgd->lr()), (Values{0.25}));
}

}  // namespace
}  // namespace uopd::client
