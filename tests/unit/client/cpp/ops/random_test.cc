// SPDX-License-Identifier: MIT
// Random tensors: ranges, moments and frequencies of thousands of draws, with fixed seeds; and
// narrow dtypes in and out.
#include <algorithm>
#include <numeric>
#include <set>

#include "tests/unit/client/cpp/ops/op_cases.h"
#include "uopd/random.h"

namespace uopd::client::random_cases {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class RandomTest : public OpCases {
 protected:
  RandomTest() { daemon_->check_schedule = false; }
  static std::pair<double, double> Moments(const std::vector<double>& x) {
    const double n = static_cast<double>(x.size()),
                 mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
    double var = 0;
    for (double v : x) var += (v - mean) * (v - mean);
    return {mean, var / n};
  }
};

TEST_F(RandomTest, FractionsOfAllDtypes) {
  for (const Dtype d : {Dtype::F64, Dtype::F32, Dtype::F16, Dtype::BF16}) {
    const auto x = Out(fn::Rand(client_, {20000}, d));
    const auto [mean, var] = Moments(x);
    EXPECT_NEAR(mean, 0.5, 0.01);
    EXPECT_NEAR(var, 1.0 / 12, 0.002);
    for (double v : x) ASSERT_TRUE(v >= 0 && v < 1) << v;
    EXPECT_EQ(fn::Rand(client_, {2, 0}, d).dims(), (Dims{2, 0}));
    const auto z = Out(fn::Normal(client_, {20000}, 3, 2, d));
    const auto [m, s] = Moments(z);
    EXPECT_NEAR(m, 3, 0.06);
    EXPECT_NEAR(s, 4, 0.15);
  }
  // More than 24 bits are random.
  const auto x = Out(fn::Rand(client_, {16}, Dtype::F64));
  EXPECT_TRUE(std::any_of(x.begin(), x.end(),
                          [](double v) { return v * 0x1p24 != std::floor(v * 0x1p24); }));
  EXPECT_FALSE(fn::Rand(client_, {2}, Dtype::I32).status().ok());
  EXPECT_FALSE(fn::Rand(client_, {-2}, Dtype::F32).status().ok());
}

TEST_F(RandomTest, EightBitFractions) {
  for (const auto& [d, count] : {std::pair(Dtype::F8E4M3, 16), std::pair(Dtype::F8E5M2, 8)}) {
    std::vector<int> seen(static_cast<size_t>(count));
    const auto x = Out(fn::Rand(client_, {8000}, d).Cast(Dtype::F32));
    for (double v : x) {
      ASSERT_TRUE(v >= 0 && v < 1 && v * count == std::floor(v * count)) << v;
      ++seen[static_cast<size_t>(v * count)];
    }
    for (int n : seen) EXPECT_NEAR(n, 8000 / count, 8 * std::sqrt(8000.0 / count)) << ir::Name(d);
    const auto z = Moments(Out(fn::Randn(client_, {20000}, d).Cast(Dtype::F32)));
    EXPECT_NEAR(z.first, 0, 0.04);
    EXPECT_NEAR(z.second, 1, 0.06);
    EXPECT_EQ(fn::RandnLike(In({2}, {1, 1}, d)).dtype(), d);
  }
  EXPECT_FALSE(fn::Randn(client_, {2}, Dtype::I32).status().ok());
}

TEST_F(RandomTest, ContinuesTheStreamOfTheClient) {
  Client a(daemon_, ClientOptions{.seed = 5}), b(daemon_, ClientOptions{.seed = 5});
  EXPECT_EQ(Out(a.Rand({7})), Out(fn::Rand(b, {7}, Dtype::F32)));
  EXPECT_EQ(Out(a.Randn({3})), Out(fn::Randn(b, {3}, Dtype::F32)));
  EXPECT_NE(Out(fn::Rand(b, {7}, Dtype::F32)), Out(fn::Rand(b, {7}, Dtype::F32)));
}

TEST_F(RandomTest, Integers) {
  const auto x = Out(fn::RandInt(client_, {7000}, -3, 4));
  for (int v = -3; v < 4; ++v) EXPECT_NEAR(std::count(x.begin(), x.end(), v), 1000, 130) << v;
  EXPECT_THAT(Out(fn::RandInt(client_, {5}, 7, 8, Dtype::U8)), Each(7));
  EXPECT_EQ(fn::RandInt(client_, {2}, 0, 9, Dtype::F16).dtype(), Dtype::F16);
  const auto wide = Out(fn::RandInt(client_, {50}, INT64_MIN, INT64_MAX, Dtype::I64));
  EXPECT_TRUE(std::any_of(wide.begin(), wide.end(), [](double v) { return v < -1e18; }));
  EXPECT_TRUE(std::any_of(wide.begin(), wide.end(), [](double v) { return v > 1e18; }));
  EXPECT_FALSE(fn::RandInt(client_, {2}, 3, 3).status().ok());
  EXPECT_FALSE(fn::RandInt(client_, {2}, 0, 257, Dtype::U8).status().ok());
}

TEST_F(RandomTest, Permutations) {
  for (const int64_t n : {0, 1, 2, 13, 100}) {
    auto x = Out(fn::RandPerm(client_, n));
    std::vector<double> sorted(static_cast<size_t>(n));
    std::iota(sorted.begin(), sorted.end(), 0);
    if (n == 100) {
      EXPECT_NE(x, sorted);
    }
    std::sort(x.begin(), x.end());
    EXPECT_EQ(x, sorted);
  }
  EXPECT_EQ(fn::RandPerm(client_, 4, Dtype::I64).dtype(), Dtype::I64);
  EXPECT_FALSE(fn::RandPerm(client_, -1).status().ok());
  // Every place is equally likely.
  std::vector<int> first(4);
  for (int i = 0; i < 400; ++i) ++first[static_cast<size_t>(Out(fn::RandPerm(client_, 4))[0])];
  for (int v : first) EXPECT_NEAR(v, 100, 40);
}

TEST_F(RandomTest, DrawsByWeight) {
  const auto coins = Out(fn::Bernoulli(In({3, 1}, {0, 0.3, 1}).Expand({3, 4000})));
  const auto third = [&](size_t i) {
    return std::accumulate(coins.begin() + static_cast<ptrdiff_t>(4000 * i),
                           coins.begin() + static_cast<ptrdiff_t>(4000 * (i + 1)), 0.0);
  };
  EXPECT_EQ(third(0), 0);
  EXPECT_NEAR(third(1), 1200, 120);
  EXPECT_EQ(third(2), 4000);
  const Tensor weights = In({2, 4}, {0, 1, 3, 0, 5, 0, 5, 0});
  const auto draws = Out(fn::Multinomial(weights, 4000, true));
  EXPECT_EQ(std::count(draws.begin(), draws.begin() + 4000, 2) +
                std::count(draws.begin(), draws.begin() + 4000, 1),
            4000);
  EXPECT_NEAR(std::count(draws.begin(), draws.begin() + 4000, 2), 3000, 130);
  EXPECT_NEAR(std::count(draws.begin() + 4000, draws.end(), 0), 2000, 150);
  int heavy = 0;
  for (int i = 0; i < 300; ++i) {
    const auto pair = Out(fn::Multinomial(weights, 2));
    EXPECT_EQ((std::set<double>{pair[0], pair[1]}), (std::set<double>{1, 2}));
    EXPECT_EQ((std::set<double>{pair[2], pair[3]}), (std::set<double>{0, 2}));
    heavy += pair[0] == 2 ? 1 : 0;
  }
  EXPECT_NEAR(heavy, 225, 35);
  EXPECT_FALSE(fn::Multinomial(weights, 5).status().ok());
  EXPECT_FALSE(fn::Multinomial(weights, 0, true).status().ok());
  EXPECT_FALSE(fn::Bernoulli(In({1}, {1}, Dtype::I32)).status().ok());
}

TEST_F(RandomTest, Initialisers) {
  const auto x = Out(fn::ScaledUniform(client_, {100, 100}));
  for (double v : x) ASSERT_TRUE(v >= -0.01 && v <= 0.01) << v;
  EXPECT_NEAR(Moments(x).second, 1e-4 / 3, 2e-6);
  EXPECT_NEAR(Moments(Out(fn::KaimingNormal(client_, {200, 50}))).second, 2.0 / 50, 2e-3);
  EXPECT_FALSE(fn::KaimingNormal(client_, {5}).status().ok());
  EXPECT_EQ(fn::RandLike(In({2}, {1, 1}, Dtype::F16)).dtype(), Dtype::F16);
  EXPECT_EQ(fn::RandnLike(In({2}, {1, 1}, Dtype::I32)).dtype(), Dtype::F32);
}

// All codes of the 8-bit floats, and all numbers between two of them, in and out.
TEST_F(RandomTest, EightBitFloats) {
  for (const Dtype d : {Dtype::F8E4M3, Dtype::F8E5M2}) {
    std::string codes(256, '\0');
    for (size_t i = 0; i < 256; ++i) codes[i] = static_cast<char>(i);
    const Tensor x = client_.FromBytes(d, {256}, codes);
    const auto bytes = (x.Cast(Dtype::F32)).Cast(d).ToBytes();
    ASSERT_TRUE(bytes.ok());
    const auto values = Out(x.Cast(Dtype::F32));
    std::vector<double> sorted;
    for (size_t i = 0; i < 256; ++i) {
      const double v = ir::DecodeFloat(d, i);
      if (std::isnan(v)) {
        EXPECT_TRUE(std::isnan(values[i])) << i;
        continue;
      }
      EXPECT_EQ(values[i], v) << i;
      EXPECT_EQ((*bytes)[i], codes[i]) << i;
      if (std::isfinite(v)) sorted.push_back(v);
    }
    std::sort(sorted.begin(), sorted.end());
    std::vector<double> between;
    for (size_t i = 0; i + 1 < sorted.size(); ++i)
      for (double t : {0.25, 0.5, 0.75})
        between.push_back(sorted[i] + t * (sorted[i + 1] - sorted[i]));
    for (double v : {1e9, -1e9, 500.0, 60000.0}) between.push_back(v);
    const auto n = static_cast<int64_t>(between.size());
    const auto rounded = Out(In({n}, between).Cast(d).Cast(Dtype::F32));
    for (size_t i = 0; i < between.size(); ++i) {
      // The nearest number, of two the one with an even code; beyond the largest one the largest.
      double best = sorted[0];
      for (double v : sorted) {
        const double a = std::abs(v - between[i]), b = std::abs(best - between[i]);
        if (a < b || (a == b && ir::EncodeFloat(d, v) % 2 == 0)) best = v;
      }
      EXPECT_EQ(rounded[i], best) << between[i];
    }
    EXPECT_EQ((x + x).dtype(), d);
    EXPECT_THAT(Out(In({2}, {1.5, 2}, d) * 2.0), ElementsAre(3, 4));
  }
}

TEST_F(RandomTest, TheSeedOfALiveClientBeginsItsStream) {
  client_.SetSeed(7);
  const auto first = Out(fn::Rand(client_, {9}, Dtype::F32));
  const auto second = Out(fn::Rand(client_, {9}, Dtype::F32));
  const Tensor before = fn::Rand(client_, {3}, Dtype::F32);
  client_.SetSeed(7);
  EXPECT_EQ(Out(fn::Rand(client_, {9}, Dtype::F32)), first);
  EXPECT_EQ(Out(fn::Rand(client_, {9}, Dtype::F32)), second);
  EXPECT_EQ(Out(fn::Rand(client_, {3}, Dtype::F32)), Out(before));
  client_.SetSeed(8);
  EXPECT_NE(Out(fn::Rand(client_, {9}, Dtype::F32)), first);
}

TEST_F(RandomTest, ThreefryIsWhatRandIsMadeOf) {
  client_.SetSeed(5);
  const auto want = Out(fn::Rand(client_, {6}, Dtype::F32));
  const Tensor bits =
      fn::Threefry(client_.Arange(0, 6, 1, Dtype::U64), client_.Full({}, 5, Dtype::U64));
  EXPECT_EQ(Out((bits >> 40).Cast(Dtype::F32) * 0x1p-24), want);
  EXPECT_FALSE(fn::Threefry(Ramp({2}), client_.Full({}, 5, Dtype::U64)).status().ok());
  EXPECT_FALSE(fn::Threefry(client_.Arange(0, 6, 1, Dtype::U64), Ramp({})).status().ok());
}

}  // namespace
}  // namespace uopd::client::random_cases
