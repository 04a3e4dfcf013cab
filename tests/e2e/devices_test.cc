// SPDX-License-Identifier: MIT
// Two devices of one daemon. Values move between them inside one graph and between requests.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/e2e/daemon_process.h"
#include "uopd/client.h"
#include "uopd/connection.h"
#include "uopd/optim.h"

namespace uopd::e2e {
namespace {

class DevicesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(daemon_.running());
    auto connection = client::Connection::Connect({.address = daemon_.listen()});
    ASSERT_TRUE(connection.ok()) << StatusText(connection.status());
    client_ =
        std::make_unique<client::Client>(*connection, client::ClientOptions{.device = "CPU:0"});
    values_.resize(1'000'003);  // an odd number, and more than fits in one request
    std::iota(values_.begin(), values_.end(), -500.0f);
  }

  TemporaryFolder folder_;
  DaemonProcess daemon_{folder_.path(), {"--device-list=CPU:0,CPU:1"}};
  std::unique_ptr<client::Client> client_;
  std::vector<float> values_;
};

TEST_F(DevicesTest, AGraphCopiesThereAndBack) {
  const auto n = static_cast<int64_t>(values_.size());
  const client::Tensor x = client_->FromHost(values_, {n});
  const client::Tensor y = ((x * 2.0).To("CPU:1") + 1.0).To("CPU:0") - x;
  const auto got = y.ToHost<float>();
  ASSERT_TRUE(got.ok()) << StatusText(got.status());
  ASSERT_EQ(got->size(), values_.size());
  for (size_t i = 0; i < values_.size(); ++i) ASSERT_EQ((*got)[i], values_[i] + 1) << i;
  // Both devices computed.
  for (const char* device : {"CPU:0", "CPU:1"}) {
    EXPECT_GE(daemon_.Metric(std::string("uopd_kernel_duration_seconds_count{device=\"") + device +
                             "\"}"),
              1)
        << device;
  }
}

TEST_F(DevicesTest, ARealizedValueStaysWhereItIsAndMoves) {
  const auto n = static_cast<int64_t>(values_.size());
  client::Tensor there = client_->FromHost(values_, {n}).To("CPU:1") * 3.0;
  ASSERT_TRUE(there.Realize().ok());
  EXPECT_GE(daemon_.Metric("uopd_buffers_bytes{device=\"CPU:1\"}"), 4.0 * static_cast<double>(n));
  const auto sum = (there.To("CPU:0") - 1.0).ToHost<float>();
  ASSERT_TRUE(sum.ok()) << StatusText(sum.status());
  for (size_t i = 0; i < values_.size(); ++i) ASSERT_EQ((*sum)[i], values_[i] * 3 - 1) << i;
}

// "cpu:1" and "CPU:1" are the same device, but each name has temporaries of its own.
TEST_F(DevicesTest, ADeviceMayBeSpelledInTwoWays) {
  const client::Tensor few = client_->FromHost(std::vector<float>{1, 2, 3}, {3});
  const auto n = static_cast<int64_t>(values_.size());
  const client::Tensor many = client_->FromHost(values_, {n});
  const client::Tensor x = (few.To("CPU:1") * 2.0).To("CPU:0");
  const client::Tensor y = (many.To("cpu:1") * 3.0).To("CPU:0");
  const auto got = (x.Sum() + y).ToHost<float>();
  ASSERT_TRUE(got.ok()) << StatusText(got.status());
  for (size_t i = 0; i < values_.size(); ++i) ASSERT_EQ((*got)[i], 12 + values_[i] * 3) << i;
}

// Three devices, values in pieces of different sizes on them.
class PiecesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(daemon_.running());
    auto connection = client::Connection::Connect({.address = daemon_.listen()});
    ASSERT_TRUE(connection.ok()) << StatusText(connection.status());
    client_ = std::make_unique<client::Client>(*connection);
  }

  const std::vector<std::string> devices_ = {"CPU:0", "CPU:1", "CPU:2"};
  TemporaryFolder folder_;
  DaemonProcess daemon_{folder_.path(), {"--device-list=CPU:0,CPU:1,CPU:2"}};
  std::unique_ptr<client::Client> client_;
};

// Sums over all pieces: some of more elements than the threshold of the ring, some of fewer.
TEST_F(PiecesTest, SumsAreTheSameOnEveryDevice) {
  for (const int64_t columns : {300'007, 1'001}) {
    std::vector<float> values(static_cast<size_t>(7 * columns));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1009) - 500;
    const client::Tensor x = client_->FromHost(values, {7, columns}).Shard(devices_, 0, {4, 1, 2});
    ASSERT_TRUE(x.Realize().ok());
    const client::Tensor sum = x.Sum({0});
    EXPECT_EQ(sum.devices(), devices_);
    ASSERT_TRUE(sum.Realize().ok());
    // What each device has, by way of a value that is only there.
    for (const std::string& device : devices_) {
      const auto got = sum.To(device).ToHost<float>();
      ASSERT_TRUE(got.ok()) << StatusText(got.status());
      for (int64_t c = 0; c < columns; ++c) {
        float want = 0;
        for (int64_t r = 0; r < 7; ++r) want += values[static_cast<size_t>(r * columns + c)];
        ASSERT_EQ((*got)[static_cast<size_t>(c)], want) << device << " column " << c;
      }
    }
  }
}

// A perceptron with its weights on every device and its batch in pieces learns the same as on one
// device.
TEST_F(PiecesTest, DataParallelTraining) {
  auto train = [&](const std::vector<std::string>& devices) {
    auto values = [](int64_t n, double scale) {
      std::vector<float> out;
      for (int64_t i = 0; i < n; ++i)
        out.push_back(static_cast<float>(scale * std::sin(1.7 * static_cast<double>(i) + 0.3)));
      return out;
    };
    std::vector<client::Tensor> weights = {client_->FromHost(values(64 * 32, 0.2), {64, 32}),
                                           client_->FromHost(values(32 * 10, 0.2), {32, 10})};
    for (client::Tensor& w : weights) {
      if (!devices.empty()) w = w.Replicate(devices);
      w.RequireGrad();
      EXPECT_TRUE(w.Realize().ok());
    }
    auto optimizer = client::Adam(*client_, weights, {.lr = 0.01});
    EXPECT_TRUE(client::Realize(optimizer->state()).ok());
    std::vector<int32_t> classes(50);
    for (size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<int32_t>(i * i % 10);
    std::vector<float> losses;
    for (int step = 0; step < 20; ++step) {
      client::Tensor x = client_->FromHost(values(50 * 64, 1), {50, 64});
      client::Tensor labels = client_->FromHost(classes, {50});
      if (!devices.empty()) x = x.Shard(devices, 0), labels = labels.Shard(devices, 0);
      const client::Tensor loss =
          x.MatMul(weights[0]).Relu().MatMul(weights[1]).CrossEntropy(labels);
      EXPECT_TRUE(loss.Backward().ok());
      const absl::Status stepped = optimizer->Step({loss});
      EXPECT_TRUE(stepped.ok()) << StatusText(stepped);
      losses.push_back(loss.Item<float>().value_or(-1));
    }
    return losses;
  };
  const std::vector<float> want = train({}), got = train(devices_);
  EXPECT_LT(want.back(), 0.9f * want.front());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-3f * want[i]) << i;
  for (const std::string& device : devices_) {
    EXPECT_GE(daemon_.Metric("uopd_kernel_duration_seconds_count{device=\"" + device + "\"}"), 20)
        << device;
  }
}

}  // namespace
}  // namespace uopd::e2e
