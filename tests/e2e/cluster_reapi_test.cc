// SPDX-License-Identifier: MIT
// Daemons with data folders of their own that share a real cache of the Remote Execution API: what
// one of them has compiled, the next one does not. A server that is gone costs them that, and no
// error.
#include "tests/e2e/graphs.h"
#include "tests/e2e/shared_cache_fixture.h"
#include "tests/support/services/service_process.h"

namespace uopd::e2e {
namespace {

class ReapiClusterTest : public SharedCacheFixture {
 protected:
  void SetUp() override {
    if (!test::HasServices()) GTEST_SKIP() << "UOPD_SERVICES names no server of BuildGrid";
    auto started = test::ServiceProcess::StartBuildGrid();
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
  }
  std::unique_ptr<DaemonProcess> Start(const std::string& name,
                                       const std::vector<std::string>& more = {}) const {
    const std::string url = "reapi://127.0.0.1:" + std::to_string(server_->port()) + "/uopd";
    return StartWith(name, FlagsFor(url, "key"), more);
  }

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
  const auto daemon = Start("a", {"--cache-cluster-budget-ms=20ms"});
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
