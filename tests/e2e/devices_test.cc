// SPDX-License-Identifier: MIT
// Two devices of one daemon: values that move between them, inside one graph and between requests.
#include <gtest/gtest.h>

#include <numeric>

#include "client/cpp/client.h"
#include "client/cpp/connection.h"
#include "tests/e2e/daemon_process.h"

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

}  // namespace
}  // namespace uopd::e2e
