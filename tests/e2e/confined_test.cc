// SPDX-License-Identifier: MIT
// A daemon in a real control group: it knows its limits, refuses what does not fit, and is not
// killed. uopd_chaos confined does this for longer and with more clients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "core/base/machine/process_limits.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/support/control_group.h"
#include "tests/support/eventually.h"

namespace uopd::e2e {
namespace {

namespace fs = std::filesystem;
using grpc::StatusCode;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMiB = 1 << 20;
constexpr char kClientBytes[] = "uopd_client_bytes_limit";

class ConfinedTest : public ::testing::Test {
 protected:
  // Null, and the test skips, where no group can be made.
  void Confine(const test::ControlGroupOptions& options) {
#if defined(UOPD_SANITIZED)
    if (options.memory_bytes > 0) GTEST_SKIP() << "a sanitizer takes memory that nobody counts";
#endif
    auto group = test::ControlGroup::Make(options);
    if (absl::IsUnavailable(group.status())) GTEST_SKIP() << StatusText(group.status());
    ASSERT_TRUE(group.ok()) << StatusText(group.status());
    group_ = *std::move(group);
  }
  DaemonProcess Start(std::vector<std::string> flags = {}, bool group_namespace = false) {
    return DaemonProcess({.program = UOPD_BINARY,
                          .folder = folder_.path().string(),
                          .flags = std::move(flags),
                          .groups = group_->folders(),
                          .group_namespace = group_namespace});
  }
  // Uploads buffers of 16 MiB until one is refused, at most `most`. Returns how many there are, and
  // why the last was refused.
  static std::pair<int, grpc::Status> Fill(Client& client, int most) {
    const std::string data(16 * kMiB, 'x');
    for (int held = 0; held < most; ++held) {
      const grpc::Status status = client.Upload(static_cast<uint64_t>(held) + 1, data);
      if (!status.ok()) return {held, status};
    }
    return {most, grpc::Status::OK};
  }
  // The processors that the threads of CPU kernels may use, as text.
  static std::vector<std::string> KernelThreads(pid_t pid) {
    std::vector<std::string> out;
    for (const auto& task : fs::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
      const std::string status = ReadFile((task.path() / "status").string());
      if (status.find("Name:\tuopd-cpu\n") == std::string::npos) continue;
      const std::string key = "Cpus_allowed_list:\t";
      const size_t at = status.find(key) + key.size();
      out.push_back(status.substr(at, status.find('\n', at) - at));
    }
    return out;
  }

  TemporaryFolder folder_;
  std::unique_ptr<test::ControlGroup> group_;
};

TEST_F(ConfinedTest, ClientsThatFillTheMemoryAreRefused) {
  for (const bool nested : {false, true}) {
    for (const bool group_namespace : {false, true}) {
      if (group_namespace && geteuid() != 0) continue;
      Confine({.memory_bytes = 512 * kMiB, .nested = nested});
      if (group_ == nullptr) return;
      DaemonProcess daemon = Start({}, group_namespace);
      ASSERT_TRUE(daemon.running());
      EXPECT_THAT(daemon.Log(), HasSubstr("memory=\"512 MiB (cgroup " + group_->name() + ")\""));
      {
        Client client(daemon);
        ASSERT_TRUE(client.OpenSession().ok());
        const auto [held, why] = Fill(client, 64);
        EXPECT_EQ(why.error_code(), StatusCode::RESOURCE_EXHAUSTED) << why.error_message();
        EXPECT_THAT(why.error_message(), HasSubstr("limits.total_bytes"));
        EXPECT_GE(held, 4);
        ExpectServes(daemon);  // there is room for a worker
      }
      EXPECT_EQ(group_->KilledCount(), 0);
      daemon.Signal(SIGTERM);
      EXPECT_EQ(daemon.Wait(), 0);
      group_ = nullptr;
    }
  }
}

TEST_F(ConfinedTest, ASettingAboveTheLimitIsAWarningAndTheGroupIsAsked) {
  Confine({.memory_bytes = 512 * kMiB});
  if (group_ == nullptr) return;
  DaemonProcess daemon = Start({"--limits-total-bytes=4GiB"});
  ASSERT_TRUE(daemon.running());
  EXPECT_THAT(daemon.Log(), HasSubstr("limits.total_bytes is more than the memory that is left"));
  Client client(daemon);
  ASSERT_TRUE(client.OpenSession().ok());
  const auto [held, why] = Fill(client, 64);
  EXPECT_EQ(why.error_code(), StatusCode::RESOURCE_EXHAUSTED) << why.error_message();
  EXPECT_THAT(why.error_message(), HasSubstr("the control group " + group_->name() + " has "));
  EXPECT_GE(held, 16);
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
}

TEST_F(ConfinedTest, AReloadFollowsTheLimit) {
  Confine({.memory_bytes = 512 * kMiB});
  if (group_ == nullptr) return;
  DaemonProcess daemon = Start();
  ASSERT_TRUE(daemon.running());
  ASSERT_TRUE(test::Eventually([&] { return daemon.Metric(kClientBytes) > 0; }));
  const double before = daemon.Metric(kClientBytes);
  EXPECT_LT(before, 512 * kMiB);
  ASSERT_TRUE(group_->SetMemory(1536 * kMiB).ok());
  daemon.Signal(SIGHUP);
  EXPECT_TRUE(test::Eventually([&] { return daemon.Metric(kClientBytes) > 2 * before; }));
}

TEST_F(ConfinedTest, ThreadsFollowTheQuotaAndAreNotBound) {
  const int all = AffinityProcessors();
  if (all < 2) GTEST_SKIP() << "this machine has one processor";
  Confine({.processors = 0.5});
  if (group_ == nullptr) return;
  {
    DaemonProcess daemon = Start();
    ASSERT_TRUE(daemon.running());
    EXPECT_THAT(daemon.Log(), HasSubstr("processors=\"1 (quota of cgroup "));
    ExpectServes(daemon);
    EXPECT_TRUE(KernelThreads(daemon.pid()).empty()) << "the thread that asks runs the kernel";
  }
  group_ = nullptr;
  Confine({.processors = all - 0.5});
  ASSERT_NE(group_, nullptr);
  DaemonProcess daemon = Start();
  ASSERT_TRUE(daemon.running());
  EXPECT_THAT(daemon.Log(), HasSubstr("processors=\"" + std::to_string(all) + " (quota of "));
  ExpectServes(daemon);
  const std::vector<std::string> threads = KernelThreads(daemon.pid());
  EXPECT_FALSE(threads.empty());
  EXPECT_THAT(threads, Each(::testing::AnyOf(HasSubstr("-"), HasSubstr(","))));
}

TEST_F(ConfinedTest, WithoutAGroupThreadsFollowTheAffinity) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(sched_getcpu()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  DaemonProcess daemon(folder_.path());
  sched_setaffinity(0, sizeof before, &before);
  ASSERT_TRUE(daemon.running());
  EXPECT_THAT(daemon.Log(), HasSubstr("processors=\"1 (affinity)\""));
  EXPECT_THAT(daemon.Log(), Not(HasSubstr("quota of cgroup")));
}

}  // namespace
}  // namespace uopd::e2e
