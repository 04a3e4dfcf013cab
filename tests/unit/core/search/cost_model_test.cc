// SPDX-License-Identifier: MIT
#include "core/search/cost_model.h"

#include <random>

#include "gtest/gtest.h"

namespace uopd::search {
namespace {

Features Random(std::mt19937& random) {
  Features out;
  for (float& x : out) x = static_cast<float>(random() % 1000) / 100;
  return out;
}

// Times that depend on products and loads alone: the model learns that, and that the estimate says
// nothing.
TEST(CostModel, LearnsWhatTimesDependOn) {
  constexpr auto kProducts = static_cast<size_t>(Feature::kProducts),
                 kLoads = static_cast<size_t>(Feature::kVectorLoads),
                 kEstimate = static_cast<size_t>(Feature::kEstimate);
  const auto truth = [](const Features& x) { return 0.1 * x[kProducts] + 0.05 * x[kLoads]; };
  std::mt19937 random(1);
  CostModel model;
  Features a{}, b{};
  b[kEstimate] = 1;
  EXPECT_NEAR(model.Predict(b) - model.Predict(a), 1, 1e-9) << "the first guess";
  for (int kernel = 0; kernel < 20; ++kernel) {
    const Features start = Random(random);
    for (int i = 0; i < 50; ++i) {
      const Features x = Random(random);
      model.Observe(start, x, truth(x) - truth(start));
    }
  }
  EXPECT_EQ(model.observations(), 1000);
  const auto read = CostModel::Decode(model.Encode());
  ASSERT_TRUE(read.ok()) << read.status();
  for (int i = 0; i < 20; ++i) {
    const Features x = Random(random), y = Random(random);
    EXPECT_NEAR(model.Predict(x) - model.Predict(y), truth(x) - truth(y), 0.02);
    EXPECT_EQ(read->Predict(x), model.Predict(x));
  }
}

TEST(CostModel, DamagedBytesAreDataLoss) {
  const std::string bytes = CostModel().Encode();
  for (size_t n = 0; n < bytes.size(); n += 7)
    EXPECT_TRUE(absl::IsDataLoss(CostModel::Decode(bytes.substr(0, n)).status())) << n;
  EXPECT_FALSE(CostModel::Decode(bytes + "x").ok());
}

}  // namespace
}  // namespace uopd::search
