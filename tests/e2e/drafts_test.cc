// SPDX-License-Identifier: MIT
// Drafts as a client sees them: a new graph is answered with kernels that were compiled quickly,
// and the optimised ones replace them behind the answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "tests/e2e/client.h"
#include "tests/e2e/compilers.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"

namespace uopd::e2e {
namespace {

constexpr char kKernelsCompiled[] = "uopd_kernels_compiled_total";
constexpr char kUpgraded[] = "uopd_draft_upgrades_total{result=\"compiled\"}";
constexpr char kPending[] = "uopd_drafts_pending";
constexpr int64_t kMatrixSide = 16;

// Runs SlowToCompile() on the same values every time.
v1::RunResponse RunSlow(Client& client) {
  v1::RunRequest request;
  request.set_graph(SlowToCompile());
  *request.add_arguments() = Returned();
  *request.add_arguments() = Data(Bytes(Scattered(kMatrixSide, 1)));
  v1::RunResponse response;
  grpc::ClientContext context;
  const grpc::Status status = client.stub().Run(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

class DraftsTest : public ::testing::Test {
 protected:
  const std::vector<std::string> flags_ = {"--compile-fast-tier=true"};
  TemporaryFolder folder_;
};

TEST_F(DraftsTest, TheFirstAnswersComeFromDraftsAndAreEqual) {
  std::string result;
  {
    DaemonProcess daemon(folder_.path(), flags_);
    Client client(daemon);
    const v1::RunResponse cold = RunSlow(client);
    ASSERT_EQ(cold.data_size(), 1);
    result = cold.data(0);
    const uint32_t kernels = cold.cache().kernels_compiled();
    EXPECT_GT(kernels, 0u);
    EXPECT_EQ(cold.cache().kernels_draft(), kernels);
    EXPECT_EQ(daemon.Metric(kKernelsCompiled), kernels);
    uint32_t drafts = kernels;
    ASSERT_TRUE(test::Eventually([&] {
      const v1::RunResponse again = RunSlow(client);
      EXPECT_EQ(again.data(0), result);
      EXPECT_EQ(again.cache().kernels_compiled(), 0u);
      EXPECT_LE(again.cache().kernels_draft(), drafts);
      drafts = again.cache().kernels_draft();
      return drafts == 0;
    })) << daemon.Log();
    EXPECT_TRUE(test::Eventually([&] { return daemon.Metric(kPending) == 0; }));
    EXPECT_EQ(daemon.Metric(kUpgraded), kernels);
    EXPECT_EQ(daemon.Metric(kKernelsCompiled), kernels);
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0);
  }
  DaemonProcess daemon(folder_.path(), flags_);
  Client client(daemon);
  const v1::RunResponse warm = RunSlow(client);
  EXPECT_EQ(warm.data(0), result);
  EXPECT_EQ(warm.cache().kernels_compiled(), 0u);
  EXPECT_EQ(warm.cache().kernels_draft(), 0u);
}

TEST_F(DraftsTest, ADaemonThatEndsDuringAnUpgradeLeavesItToTheNextOne) {
  std::string result;
  {
    DaemonProcess daemon(folder_.path(), flags_);
    Client client(daemon);
    result = RunSlow(client).data(0);
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0);
  }
  DaemonProcess daemon(folder_.path(), flags_);
  Client client(daemon);
  const v1::RunResponse warm = RunSlow(client);
  EXPECT_EQ(warm.data(0), result);
  EXPECT_EQ(warm.cache().kernels_compiled(), 0u);
  EXPECT_TRUE(test::Eventually([&] { return RunSlow(client).cache().kernels_draft() == 0; }));
}

// Requests that run beside an upgrade hardly notice it.
TEST_F(DraftsTest, UpgradesAreTheLastToGetAProcessor) {
  DaemonProcess daemon(folder_.path(), flags_);
  Client client(daemon);
  RunSlow(client);
  int upgrade = -1;
  EXPECT_TRUE(test::Eventually([&] {
    for (const test::Process& worker : Named(daemon.pid(), "uopd-upgrade")) {
      upgrade = std::max(upgrade, getpriority(PRIO_PROCESS, static_cast<id_t>(worker.pid)));
    }
    return upgrade == 19;
  })) << "nice "
      << upgrade;
}

// One compile of each tier for N clients of two daemons.
TEST_F(DraftsTest, DaemonsShareDraftsAndUpgrades) {
  TemporaryFolder other;
  std::vector<std::string> flags = flags_;
  flags.push_back("--data-dir=" + (folder_.path() / "data").string());
  DaemonProcess first(folder_.path(), flags_), second(other.path(), flags);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      Client client(i % 2 == 0 ? first : second);
      EXPECT_TRUE(test::Eventually([&] { return RunSlow(client).cache().kernels_draft() == 0; }));
    });
  }
  threads.clear();  // joins
  Client client(first);
  const v1::CacheOutcome warm = RunSlow(client).cache();
  const uint32_t kernels = warm.kernels_memory() + warm.kernels_disk() + warm.kernels_compiled();
  EXPECT_GT(kernels, 0u);
  const auto sum = [&](const char* series) {
    return std::max(0.0, first.Metric(series)) + std::max(0.0, second.Metric(series));
  };
  EXPECT_EQ(sum(kKernelsCompiled), kernels);
  EXPECT_TRUE(test::Eventually([&] { return sum(kUpgraded) == kernels; }));
}

// The optimising compiler is tried when the compiler of drafts dies.
TEST_F(DraftsTest, ADraftThatKillsItsCompilerIsNoError) {
  DaemonProcess daemon(folder_.path(), flags_);
  Client client(daemon);
  ASSERT_TRUE(client.OpenSession().ok());
  ExpectServes(daemon);  // the workers are ready
  grpc::Status status;
  std::thread call([&] { client.Prepare(SlowToCompile(), &status); });
  HitCompiler({daemon.pid()}, SIGSEGV);
  call.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(daemon.Metric("uopd_worker_kills_total{pool=\"compile\"}"), 1);
}

TEST_F(DraftsTest, TheSettingTurnsThemOff) {
  DaemonProcess daemon(folder_.path(), {"--compile-fast-tier=false"});
  Client client(daemon);
  EXPECT_EQ(RunSlow(client).cache().kernels_draft(), 0u);
  EXPECT_EQ(daemon.Metric(kUpgraded), -1);
}

}  // namespace
}  // namespace uopd::e2e
