// SPDX-License-Identifier: MIT
// Precision as a client's choice: exact by default, rounded operands where a request allows them,
// and no request sees what another one allowed.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <optional>

#include "tests/e2e/daemon_process.h"
#include "tests/e2e/graphs.h"
#include "uopd/connection.h"
#include "uopd/context.h"

namespace uopd::e2e {
namespace {

using client::Tensor;

constexpr int64_t kM = 70, kK = 130, kN = 90;

float ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

class PrecisionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(daemon_.running());
    auto connection = client::Connection::Connect({.address = daemon_.listen()});
    ASSERT_TRUE(connection.ok()) << connection.status();
    client_.emplace(*connection);
  }

  std::vector<float> Product() {
    const Tensor a = client_->FromHost(a_, {kM, kK}), b = client_->FromHost(b_, {kK, kN});
    const auto out = a.MatMul(b).ToHost<float>();
    EXPECT_TRUE(out.ok()) << out.status();
    return out.value_or(std::vector<float>());
  }

  // The largest error against sums of products of f(operand), in units of what a sum in f32 may be
  // off; at most 1 if `got` is right.
  template <class F>
  double Error(const std::vector<float>& got, F f) const {
    double worst = 0;
    for (int64_t i = 0; i < kM; ++i) {
      for (int64_t j = 0; j < kN; ++j) {
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < kK; ++k) {
          const double p = double{f(a_[size_t(i * kK + k)])} * double{f(b_[size_t(k * kN + j)])};
          sum += p;
          magnitude += std::abs(p);
        }
        const double off = std::abs(double{got[size_t(i * kN + j)]} - sum);
        worst = std::max(worst, off / (magnitude * kK * 0x1p-24));
      }
    }
    return worst;
  }

  TemporaryFolder folder_;
  DaemonProcess daemon_{folder_.path()};
  std::optional<client::Client> client_;
  const std::vector<float> a_ = Scattered(kM * kK, 1), b_ = Scattered(kK * kN, 2);
};

constexpr auto kExact = [](float v) { return v; };

TEST_F(PrecisionTest, ExactByDefaultAndRoundedByPermission) {
  EXPECT_LE(Error(Product(), kExact), 1);
  {
    const client::Context allow(*client_, {.allow_bf16 = true});
    const std::vector<float> got = Product();
    // A processor without an instruction for it computes exactly.
    const bool rounds = Error(got, kExact) > 1;
    EXPECT_LE(rounds ? Error(got, ToBf16) : 0, 1);
    EXPECT_EQ(Product(), got);
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512bf16")) {
      EXPECT_TRUE(rounds);
    }
#endif
  }
  // The same graph, prepared before with the permission.
  EXPECT_LE(Error(Product(), kExact), 1);
}

// A processor has no instruction for tf32, so the permission changes no bit.
TEST_F(PrecisionTest, Tf32IsForDevicesThatHaveIt) {
  const std::vector<float> exact = Product();
  const client::Context allow(*client_, {.allow_tf32 = true});
  EXPECT_EQ(Product(), exact);
}

TEST_F(PrecisionTest, TheTwoProgramsAreCachedApart) {
  Product();
  const uint64_t before = client_->stats().schedule_misses;
  {
    const client::Context allow(*client_, {.allow_bf16 = true});
    Product();
    EXPECT_EQ(client_->stats().schedule_misses, before + 1);
    Product();
    EXPECT_EQ(client_->stats().schedule_misses, before + 1);
  }
  Product();
  EXPECT_EQ(client_->stats().schedule_misses, before + 1);
}

}  // namespace
}  // namespace uopd::e2e
