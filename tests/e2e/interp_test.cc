// SPDX-License-Identifier: MIT
// A daemon whose devices are INTERP: code for GPUs, from the client to the result, with every
// access checked.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string_view>

#include "tests/e2e/daemon_process.h"
#include "uopd/client.h"
#include "uopd/connection.h"
#include "uopd/context.h"
#include "uopd/functional.h"
#include "uopd/optim.h"

namespace uopd::e2e {
namespace {

using FloatVector = std::vector<float>;
using ir::Dtype;

// The parameter is the default device.
class InterpDaemonTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(daemon_.running());
    connection_ = Connect();
    client_ =
        std::make_unique<client::Client>(connection_, client::ClientOptions{.device = GetParam()});
  }
  std::shared_ptr<client::Connection> Connect() {
    auto connection = client::Connection::Connect({.address = daemon_.listen()});
    EXPECT_TRUE(connection.ok()) << StatusText(connection.status());
    return connection.ok() ? *connection : nullptr;
  }
  static FloatVector Waves(int64_t n, double scale, double step = 1.7) {
    FloatVector out;
    for (int64_t i = 0; i < n; ++i)
      out.push_back(static_cast<float>(scale * std::sin(step * static_cast<double>(i) + 0.3)));
    return out;
  }
  static FloatVector Got(const client::Tensor& x) {
    const auto got = x.ToHost<float>();
    EXPECT_TRUE(got.ok()) << StatusText(got.status());
    return got.ok() ? *got : FloatVector();
  }

  TemporaryFolder folder_;
  DaemonProcess daemon_{folder_.path(), {"--device-list=INTERP:0,INTERP:1,CPU"}};
  std::shared_ptr<client::Connection> connection_;
  std::unique_ptr<client::Client> client_;
};

TEST_P(InterpDaemonTest, MultipliesMatrices) {
  constexpr int64_t kM = 48, kK = 40, kN = 36;
  const FloatVector a = Waves(kM * kK, 1), b = Waves(kK * kN, 1, 0.9);
  const FloatVector got =
      Got(client_->FromHost(a, {kM, kK}).MatMul(client_->FromHost(b, {kK, kN})));
  ASSERT_EQ(got.size(), static_cast<size_t>(kM * kN));
  for (int64_t i = 0; i < kM; ++i) {
    for (int64_t j = 0; j < kN; ++j) {
      double want = 0;
      for (int64_t k = 0; k < kK; ++k)
        want += static_cast<double>(a[static_cast<size_t>(i * kK + k)]) *
                static_cast<double>(b[static_cast<size_t>(k * kN + j)]);
      ASSERT_NEAR(got[static_cast<size_t>(i * kN + j)], want, 1e-5) << i << ", " << j;
    }
  }
  EXPECT_GE(daemon_.Metric(std::string("uopd_kernel_duration_seconds_count{device=\"") +
                           GetParam() + "\"}"),
            1);
}

// Products of f32 round their factors to tf32 where a request allows it, and keep all bits where it
// does not.
TEST_P(InterpDaemonTest, RoundsToTf32ByPermission) {
  constexpr int64_t kM = 48, kK = 40, kN = 36;
  const FloatVector a = Waves(kM * kK, 1), b = Waves(kK * kN, 1, 0.9);
  const auto product = [&] {
    return Got(client_->FromHost(a, {kM, kK}).MatMul(client_->FromHost(b, {kK, kN})));
  };
  const auto rounded = [](float x) {  // half away from zero
    return double{std::bit_cast<float>((std::bit_cast<uint32_t>(x) + 0x1000) & 0xffffe000)};
  };
  const FloatVector exact = product();
  FloatVector got;
  {
    const client::Context allow(*client_, {.allow_tf32 = true});
    got = product();
  }
  EXPECT_EQ(product(), exact);
  ASSERT_EQ(got.size(), static_cast<size_t>(kM * kN));
  // Of the three devices only INTERP:0 has NVIDIA's instructions.
  if (std::string_view(GetParam()) != "INTERP:0") {
    EXPECT_EQ(got, exact);
    return;
  }
  double change = 0;
  for (int64_t i = 0; i < kM; ++i) {
    for (int64_t j = 0; j < kN; ++j) {
      const auto at = static_cast<size_t>(i * kN + j);
      double want = 0, size = 0;
      for (int64_t k = 0; k < kK; ++k) {
        const double term = rounded(a[static_cast<size_t>(i * kK + k)]) *
                            rounded(b[static_cast<size_t>(k * kN + j)]);
        want += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(got[at], want, 1e-6 * size) << i << ", " << j;
      change = std::max(change, std::abs(double{got[at]} - double{exact[at]}) / size);
    }
  }
  EXPECT_GT(change, 1e-5);
  EXPECT_LT(change, 2.01 * 0x1p-11);
}

TEST_P(InterpDaemonTest, MultipliesMatricesOfHalves) {
  constexpr int64_t kSize = 64;
  const FloatVector a = Waves(kSize * kSize, 1), b = Waves(kSize * kSize, 1, 0.9);
  const auto product = [&](const char* device) {
    const auto half = [&](const FloatVector& v) {
      return client_->FromHost(v, {kSize, kSize}).Cast(Dtype::F16).To(device);
    };
    return Got(half(a).MatMul(half(b)).Cast(Dtype::F32).To(GetParam()));
  };
  const FloatVector got = product(GetParam()), want = product("CPU");
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-2) << i;
}

TEST_P(InterpDaemonTest, SumsAndSoftmax) {
  constexpr int64_t kRows = 17, kColumns = 300;
  const FloatVector values = Waves(kRows * kColumns, 3);
  const client::Tensor x = client_->FromHost(values, {kRows, kColumns});
  const FloatVector total = Got(x.Sum()), sums = Got(x.Sum({0})), soft = Got(x.Softmax());
  ASSERT_EQ(soft.size(), values.size());
  double all = 0;
  for (int64_t r = 0; r < kRows; ++r) {
    double row = 0;
    for (int64_t c = 0; c < kColumns; ++c) {
      const double v = static_cast<double>(values[static_cast<size_t>(r * kColumns + c)]);
      all += v, row += std::exp(v);
    }
    for (int64_t c = 0; c < kColumns; ++c) {
      const auto at = static_cast<size_t>(r * kColumns + c);
      ASSERT_NEAR(soft[at], std::exp(static_cast<double>(values[at])) / row, 1e-6);
    }
  }
  EXPECT_NEAR(total.at(0), all, 1e-3);
  for (int64_t c = 0; c < kColumns; ++c) {
    double want = 0;
    for (int64_t r = 0; r < kRows; ++r)
      want += static_cast<double>(values[static_cast<size_t>(r * kColumns + c)]);
    ASSERT_NEAR(sums.at(static_cast<size_t>(c)), want, 1e-4);
  }
}

// Ten steps of Adam on a network of 32, 16 and 10 give the losses and weights of the CPU.
TEST_P(InterpDaemonTest, TrainsAsTheCpuDoes) {
  const auto train = [&](const char* device, FloatVector& weights) {
    client::Client client(connection_, client::ClientOptions{.device = device});
    std::vector<client::Tensor> w = {
        client.FromHost(Waves(32 * 16, 0.3), {32, 16}), client.FromHost(Waves(16, 0.1), {16}),
        client.FromHost(Waves(16 * 10, 0.3, 0.9), {16, 10}), client.FromHost(Waves(10, 0.1), {10})};
    for (client::Tensor& t : w) {
      t.RequireGrad();
      EXPECT_TRUE(t.Realize().ok());
    }
    auto optimizer = client::Adam(client, w, {.lr = 0.01});
    std::vector<int32_t> classes(20);
    for (size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<int32_t>(i * i % 10);
    FloatVector losses;
    for (int step = 0; step < 10; ++step) {
      const client::Tensor x = client.FromHost(Waves(20 * 32, 1, 0.37), {20, 32});
      const client::Tensor hidden = (x.MatMul(w[0]) + w[1]).Relu();
      const client::Tensor loss =
          (hidden.MatMul(w[2]) + w[3]).CrossEntropy(client.FromHost(classes, {20}));
      EXPECT_TRUE(loss.Backward().ok());
      const absl::Status stepped = optimizer->Step({loss});
      EXPECT_TRUE(stepped.ok()) << StatusText(stepped);
      losses.push_back(loss.Item<float>().value_or(-1));
    }
    for (const client::Tensor& t : w) {
      const FloatVector values = Got(t);
      weights.insert(weights.end(), values.begin(), values.end());
    }
    return losses;
  };
  FloatVector cpu_weights, weights;
  const FloatVector want = train("CPU", cpu_weights), got = train(GetParam(), weights);
  EXPECT_LT(want.back(), 0.9f * want.front());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4f * want[i]) << i;
  ASSERT_EQ(weights.size(), size_t{32 * 16 + 16 + 16 * 10 + 10});
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(weights[i], cpu_weights[i], 1e-4f) << i;
}

// Images of 5 x 7 pixels and their halves: tiles of all pixels, by matrix instructions for halves.
TEST_P(InterpDaemonTest, ConvolvesNarrowImages) {
  for (const Dtype dtype : {Dtype::F32, Dtype::F16}) {
    for (const int64_t stride : {1, 2}) {
      const client::Dims x = {stride, 36, 5 * stride, 7 * stride}, w = {34, 36, 3, 3};
      const auto convolved = [&](const char* device) {
        const auto on = [&](const client::Dims& dims, double step) {
          return client_->FromHost(Waves(ir::Product(dims), 0.5, step), dims)
              .Cast(dtype)
              .To(device);
        };
        const client::Tensor out =
            client::fn::Conv(on(x, 1.7), on(w, 0.9), {}, {.stride = {stride}, .padding = {1}});
        return Got(out.Cast(Dtype::F32).To(GetParam()));
      };
      const FloatVector got = convolved(GetParam()), want = convolved("CPU");
      ASSERT_EQ(got.size(), static_cast<size_t>(stride * 34 * 5 * 7));
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], want[i], dtype == Dtype::F32 ? 1e-4 : 2e-2) << i << ", " << stride;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, InterpDaemonTest, ::testing::Values("INTERP:0", "INTERP:1"),
                         [](const ::testing::TestParamInfo<const char*>& info) {
                           return info.index == 0 ? "Warp32" : "Warp64";
                         });

}  // namespace
}  // namespace uopd::e2e
