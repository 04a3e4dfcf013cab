// SPDX-License-Identifier: MIT
// Tuning on devices that are not the CPU: the measuring process opens the device itself, the
// answers stay right, and the winner is stored.
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstdlib>

#include "tests/e2e/daemon_process.h"
#include "tests/support/eventually.h"
#include "uopd/client.h"
#include "uopd/connection.h"

namespace uopd::e2e {
namespace {

constexpr char kMetricTuned[] = "uopd_tune_kernels_total{result=\"tuned\"}";
constexpr char kMetricMeasured[] = "uopd_tune_candidates_total{outcome=\"measured\"}";

class TuningDevicesTest : public ::testing::TestWithParam<const char*> {
 protected:
  // A product of integers, so that every order of the sums gives the same. False: it failed.
  static bool RunProduct(client::Client& client) {
    constexpr int64_t kM = 12, kK = 10, kN = 8;
    std::vector<float> a(kM * kK), b(kK * kN);
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 7 % 11) - 5;
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 5 % 13) - 6;
    const auto got =
        client.FromHost(a, {kM, kK}).MatMul(client.FromHost(b, {kK, kN})).ToHost<float>();
    EXPECT_TRUE(got.ok()) << StatusText(got.status());
    if (!got.ok()) return false;
    for (size_t i = 0; i < kM; ++i) {
      for (size_t j = 0; j < kN; ++j) {
        float want = 0;
        for (size_t k = 0; k < kK; ++k) want += a[i * kK + k] * b[k * kN + j];
        EXPECT_EQ((*got)[i * kN + j], want) << i << ", " << j;
        if ((*got)[i * kN + j] != want) return false;
      }
    }
    return true;
  }
  // The number of tuned kernels in the program: 0 if it was not tuned in the time of Eventually.
  uint64_t RunUntilTuned(const DaemonProcess& daemon) {
    auto connection = client::Connection::Connect({.address = daemon.listen()});
    EXPECT_TRUE(connection.ok()) << StatusText(connection.status());
    if (!connection.ok()) return 0;
    for (const client::DeviceInfo& device : (*connection)->devices()) {
      if (device.name == GetParam()) missing_ = device.unavailable_reason;
    }
    if (!missing_.empty()) return 0;
    client::Client client(*connection, {.device = GetParam(), .execution = {.beam = 2}});
    (void)test::Eventually(
        [&] { return !RunProduct(client) || client.stats().kernels_tuned != 0; });
    return client.stats().kernels_tuned;
  }

  const std::vector<std::string> flags_ = {std::string("--device-list=") + GetParam(),
                                           "--tune-candidates=8"};
  TemporaryFolder folder_;
  std::string missing_;
};

TEST_P(TuningDevicesTest, FindsAndStoresAWinner) {
  {
    DaemonProcess daemon(folder_.path(), flags_);
    ASSERT_TRUE(daemon.running());
    const uint64_t tuned = RunUntilTuned(daemon);
    if (!missing_.empty() && std::getenv("UOPD_REQUIRE_OPENCL") == nullptr) {
      GTEST_SKIP() << missing_;
    }
    EXPECT_EQ(tuned, 1u) << daemon.Log();
    EXPECT_TRUE(test::Eventually([&] { return daemon.Metric(kMetricTuned) == 1; })) << daemon.Log();
    EXPECT_GE(daemon.Metric(kMetricMeasured), 2) << daemon.Log();
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0);
  }
  DaemonProcess daemon(folder_.path(), flags_);
  EXPECT_EQ(RunUntilTuned(daemon), 1u) << daemon.Log();
  EXPECT_EQ(daemon.Metric("uopd_kernels_compiled_total"), 0);
  EXPECT_EQ(daemon.Metric(kMetricMeasured), -1) << "found, and not tuned again";
}

INSTANTIATE_TEST_SUITE_P(Devices, TuningDevicesTest, ::testing::Values("INTERP:0", "CL:0"),
                         [](const ::testing::TestParamInfo<const char*>& info) {
                           return info.index == 0 ? "Interp" : "OpenCl";
                         });

}  // namespace
}  // namespace uopd::e2e
