// SPDX-License-Identifier: MIT
// Daemons with data folders of their own that share a real cache of the Remote Execution API: what one of them has compiled,
// the next one does not. A server that is gone costs them that, and no error.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"
#include "tests/support/services/service_process.h"

namespace uopd::e2e {
namespace {

class ReapiClusterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::HasServices()) GTEST_SKIP() << "UOPD_SERVICES names no server of BuildGrid";
    auto started = test::ServiceProcess::StartBuildGrid();
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    std::ofstream(Key()) << std::string(64, 'a') << "\n";
    chmod(Key().c_str(), 0600);
  }
  std::string Key() const { return (folder_.path() / "key").string(); }
  std::unique_ptr<DaemonProcess> Start(const std::string& name,
                                       const std::string& budget = "2s") const {
    std::filesystem::create_directories(folder_.path() / name);
    const std::vector<std::string> flags = {
        "--cache-cluster=reapi://127.0.0.1:" + std::to_string(server_->port()) + "/uopd",
        "--cache-cluster-sign-key=" + Key(), "--cache-cluster-budget-ms=" + budget,
        "--compile-fast-tier=false",  // each kernel is compiled once
        "--compile-warm-up=false"};
    return std::make_unique<DaemonProcess>(folder_.path() / name, flags);
  }
  static double Count(const DaemonProcess& daemon, const std::string& series) {
    return std::max(0.0, daemon.Metric(series));
  }
  static double Compiled(const DaemonProcess& daemon) {
    return Count(daemon, "uopd_kernels_compiled_total");
  }
  static void Prepare(const DaemonProcess& daemon, const std::string& graph) {
    Client client(daemon);
    ASSERT_TRUE(client.OpenSession().ok());
    grpc::Status status;
    client.Prepare(graph, &status);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  static bool AwaitSent(const DaemonProcess& daemon) {
    return test::Eventually([&] { return daemon.Metric("uopd_cluster_queue_bytes") == 0; });
  }

  TemporaryFolder folder_;
  std::unique_ptr<test::ServiceProcess> server_;
};

TEST_F(ReapiClusterTest, TheSecondDaemonCompilesNothing) {
  constexpr int kGraphs = 3;
  const auto one = Start("a");
  for (int g = 0; g < kGraphs; ++g) Prepare(*one, SlowToCompile(100 + g, 20));
  EXPECT_EQ(Compiled(*one), kGraphs);
  ASSERT_TRUE(AwaitSent(*one)) << one->Log();
  const auto other = Start("b");
  for (int g = 0; g < kGraphs; ++g) Prepare(*other, SlowToCompile(100 + g, 20));
  EXPECT_EQ(Compiled(*other), 0) << other->Log();
  EXPECT_GE(Count(*other, "uopd_cluster_lookups_total{result=\"hit\"}"), kGraphs);
}

TEST_F(ReapiClusterTest, AServerThatIsGoneCostsNoErrorAndIsFilledAgain) {
  const auto daemon = Start("a", "20ms");
  Prepare(*daemon, SlowToCompile(120, 10));
  server_->Kill();
  for (int i = 1; i < 6; ++i) Prepare(*daemon, SlowToCompile(120 + i, 5));
  EXPECT_EQ(Compiled(*daemon), 6);
  EXPECT_EQ(daemon->Metric("uopd_cluster_reachable"), 0) << daemon->Log();
  ASSERT_TRUE(server_->Restart().ok());
  EXPECT_TRUE(AwaitSent(*daemon)) << daemon->Log();
  // The server lost what it had in memory, and gets that back, too.
  EXPECT_TRUE(test::Eventually([&] {
    return Count(*daemon, "uopd_cluster_puts_total{result=\"refilled\"}") >= 1;
  })) << daemon->Log();
  const auto other = Start("b");
  Prepare(*other, SlowToCompile(120, 10));
  for (int i = 1; i < 6; ++i) Prepare(*other, SlowToCompile(120 + i, 5));
  EXPECT_EQ(Compiled(*other), 0) << other->Log();
}

}  // namespace
}  // namespace uopd::e2e
