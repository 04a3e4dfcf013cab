// SPDX-License-Identifier: MIT
#include "core/search/surrogate.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "gtest/gtest.h"

namespace uopd::search {
namespace {

// A bowl in two numbers: near its points the surrogate knows it, far away it says that it does not.
TEST(Surrogate, KnowsWhatItHasSeen) {
  const auto bowl = [](double x, double y) {
    return 0.1 * ((x - 3) * (x - 3) + (y - 2) * (y - 2));
  };
  Surrogate surrogate;
  EXPECT_EQ(surrogate.Predict(std::vector<float>{0, 0}).deviation, 1);
  for (int x = 0; x <= 6; ++x) {
    for (int y = 0; y <= 6; ++y) {
      if ((x + y) % 2 == 0)
        surrogate.Observe({static_cast<float>(x), static_cast<float>(y)}, bowl(x, y));
    }
  }
  double error = 0;
  for (int x = 1; x < 6; ++x) {
    for (int y = 1; y < 6; ++y) {
      const auto p =
          surrogate.Predict(std::vector<float>{static_cast<float>(x), static_cast<float>(y)});
      error = std::max(error, std::abs(p.mean - bowl(x, y)));
    }
  }
  EXPECT_LT(error, 0.1);
  EXPECT_LT(surrogate.Predict(std::vector<float>{2, 2}).deviation,
            surrogate.Predict(std::vector<float>{20, 20}).deviation / 4);
}

// What has a good prior needs few observations; one that is wrong is not trusted for long.
TEST(Surrogate, TrustsAPriorAsFarAsItHolds) {
  const auto truth = [](std::span<const float> x) { return 2.0 * x[0]; };
  Surrogate good(truth), bad([](std::span<const float> x) { return -2.0 * x[0]; });
  for (const float x : {0.F, 1.F, 2.F, 3.F, 4.F}) {
    good.Observe({x, 0}, std::min(truth(std::span(&x, 1)), 3.0));
    bad.Observe({x, 0}, std::min(truth(std::span(&x, 1)), 3.0));
  }
  EXPECT_NEAR(good.Predict(std::vector<float>{1, 0}).mean, 2, 0.3);
  EXPECT_NEAR(bad.Predict(std::vector<float>{1, 0}).mean, 2, 0.5);
  EXPECT_LT(bad.Predict(std::vector<float>{0, 0}).mean, bad.Predict(std::vector<float>{2, 0}).mean);
}

TEST(Surrogate, ForgetsTheSlowestOfMany) {
  Surrogate surrogate;
  for (int i = 0; i < 1000; ++i)
    surrogate.Observe({static_cast<float>(i) / 100}, static_cast<double>(i) / 100);
  EXPECT_NEAR(surrogate.Predict(std::vector<float>{1}).mean, 1, 0.05);
}

}  // namespace
}  // namespace uopd::search
