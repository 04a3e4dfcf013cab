// SPDX-License-Identifier: MIT
// A daemon that opens all devices of the machine, OpenCL's among them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "tests/e2e/daemon_process.h"
#include "uopd/client.h"
#include "uopd/connection.h"

namespace uopd::e2e {
namespace {

// The variables reach the daemon; tests/support/pocl.h says what they do.
bool AskForTwoDevices() {
  setenv("POCL_DEVICES", "pthread pthread", 0);
  setenv("POCL_CACHE_DIR", (testing::TempDir() + "uopd_pocl").c_str(), 0);
  return true;
}
const bool kAsked = AskForTwoDevices();

class OpenClDaemonTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(daemon_.running());
    auto connection = client::Connection::Connect({.address = daemon_.listen()});
    ASSERT_TRUE(connection.ok()) << StatusText(connection.status());
    connection_ = *connection;
    if (!Has("CL:1") && std::getenv("UOPD_REQUIRE_OPENCL") == nullptr) {
      GTEST_SKIP() << "This machine has not two OpenCL devices; PoCL (pocl-opencl-icd) has them";
    }
  }
  bool Has(std::string_view name) const {
    return std::ranges::any_of(connection_->devices(), [&](const client::DeviceInfo& device) {
      return device.name == name && device.unavailable_reason.empty();
    });
  }

  TemporaryFolder folder_;
  DaemonProcess daemon_{folder_.path(), {"--device-list=all"}};
  std::shared_ptr<client::Connection> connection_;
};

TEST_F(OpenClDaemonTest, AllDevicesAreThereAndTheFirstIsTheProcessor) {
  EXPECT_EQ(connection_->devices().front().name, "CPU:0");
  for (const char* name : {"CPU:0", "CL:0", "CL:1"}) EXPECT_TRUE(Has(name)) << name;
  EXPECT_FALSE(Has("NULL:0"));
}

TEST_F(OpenClDaemonTest, ValuesMoveBetweenDevicesOfTwoDrivers) {
  client::Client client(connection_);
  std::vector<float> values(1'000'003);  // an odd number, and more than fits in one request
  std::iota(values.begin(), values.end(), -500.0f);
  const client::Tensor x = client.FromHost(values, {static_cast<int64_t>(values.size())});
  client::Tensor there = (x * 2.0).To("CL:0").To("CL:1");
  ASSERT_TRUE(there.Realize().ok());
  EXPECT_GE(daemon_.Metric("uopd_buffers_bytes{device=\"CL:1\"}"),
            4.0 * static_cast<double>(values.size()));
  const auto got = (there.To("CPU:0") + 1.0).ToHost<float>();
  ASSERT_TRUE(got.ok()) << StatusText(got.status());
  ASSERT_EQ(got->size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ((*got)[i], values[i] * 2 + 1) << i;
}

}  // namespace
}  // namespace uopd::e2e
