// SPDX-License-Identifier: MIT
// What the search learns from: books of trials, the cost model of a device, the surrogate of one search.
#include <cmath>
#include <random>

#include "core/search/cost_model.h"
#include "core/search/surrogate.h"
#include "core/search/trial_book.h"
#include "gtest/gtest.h"

namespace uopd::search {
namespace {

TEST(TrialBook, KeepsTimesByProgram) {
  TrialBook book;
  book.Add(HashBytes("a"), 1e-6);
  book.Add(HashBytes("b"), 0);
  book.Add(HashBytes("a"), 2e-6);
  auto read = TrialBook::Decode(book.Encode());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->size(), 2);
  EXPECT_EQ(read->Find(HashBytes("a")), 2e-6);
  EXPECT_EQ(read->Find(HashBytes("b")), 0);
  EXPECT_EQ(read->Find(HashBytes("c")), std::nullopt);
  EXPECT_EQ(read->Encode(), book.Encode());
}

TEST(TrialBook, IsBounded) {
  TrialBook book;
  for (size_t i = 0; i < TrialBook::kMost + 10; ++i) book.Add(HashBytes(std::to_string(i)), 1);
  EXPECT_EQ(book.size(), TrialBook::kMost);
  EXPECT_TRUE(TrialBook::Decode(book.Encode()).ok());
}

TEST(TrialBook, DamagedBytesAreDataLoss) {
  TrialBook book;
  book.Add(HashBytes("a"), 1e-6);
  book.Add(HashBytes("b"), 2e-6);
  const std::string bytes = book.Encode();
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_TRUE(absl::IsDataLoss(TrialBook::Decode(bytes.substr(0, n)).status())) << n;
  EXPECT_FALSE(TrialBook::Decode(bytes + "x").ok());
  EXPECT_FALSE(TrialBook::Decode("\xff\xff\xff\xff\x0f").ok()) << "a count of billions";
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::string bad = bytes;
    bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
    const auto read = TrialBook::Decode(bad);
    if (!read.ok()) continue;
    EXPECT_EQ(read->size(), 2);
  }
}

Features Random(std::mt19937& random) {
  Features out;
  for (float& x : out) x = static_cast<float>(random() % 1000) / 100;
  return out;
}

// Times that depend on products and loads alone: the model learns that, and that the estimate says nothing.
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
