// SPDX-License-Identifier: MIT
// The worker processes of a daemon, seen from outside: what their deaths cost, and that no process
// stays behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <thread>

#include "tests/e2e/client.h"
#include "tests/e2e/compilers.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"
#include "tests/support/processes.h"

namespace uopd::e2e {
namespace {

using test::Descendants;
using test::Process;
using ::testing::HasSubstr;

constexpr char kKills[] = "uopd_worker_kills_total{pool=\"compile\"}";

class WorkersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(daemon_.running());
    ASSERT_TRUE(client_.OpenSession().ok());
  }

  TemporaryFolder folder_;
  // Without drafts: each kernel is compiled once, in the pool "compile". drafts_test.cc has both.
  // Without warm-up: a busy compiler works for a request.
  DaemonProcess daemon_{folder_.path(), {"--compile-fast-tier=false", "--compile-warm-up=false"}};
  Client client_{daemon_};
};

TEST_F(WorkersTest, KernelsAreCompiledByOtherProcesses) {
  ExpectServes(daemon_);
  EXPECT_FALSE(Named(daemon_.pid(), "uopd-compile").empty());
}

TEST_F(WorkersTest, CompilersAreReadyBeforeTheFirstRequest) {
  TemporaryFolder other;
  const DaemonProcess ready(other.path());
  EXPECT_TRUE(test::Eventually([&] { return !Named(ready.pid(), "uopd-compile").empty(); }))
      << ready.Log();
  EXPECT_TRUE(Named(daemon_.pid(), "uopd-compile").empty()) << "compile.warm_up is off here";
  ExpectServes(ready);
}

TEST_F(WorkersTest, ACompilerThatDiesCostsItsKernelAndNothingElse) {
  const std::string graph = SlowToCompile();
  grpc::Status failed;
  std::thread call([&] { client_.Prepare(graph, &failed); });
  HitCompiler({daemon_.pid()}, SIGSEGV);
  call.join();
  EXPECT_EQ(failed.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(failed.error_message(), HasSubstr("the compiler fails on kernel "));
  EXPECT_THAT(failed.error_message(), HasSubstr("SIGSEGV"));
  EXPECT_THAT(failed.error_message(), HasSubstr("reproducer: "));
  EXPECT_EQ(daemon_.Metric(kKills), 1);
  ExpectServes(daemon_);
  // It is not tried again.
  grpc::Status again;
  client_.Prepare(graph, &again);
  EXPECT_EQ(again.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(again.error_message(), HasSubstr("quarantine"));
  EXPECT_EQ(daemon_.Metric(kKills), 1);
}

struct Ended {
  int code = -1;
  std::string out;
};
Ended Uopctl(const std::string& arguments) {
  Ended result;
  FILE* pipe = popen((std::string(UOPCTL_BINARY) + " " + arguments + " 2>&1").c_str(), "r");
  char text[4096];
  while (const size_t n = fread(text, 1, sizeof text, pipe)) result.out.append(text, n);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  return result;
}

TEST_F(WorkersTest, TheQuarantineIsListedAndClearedAndAFailureReplayed) {
  const std::string graph = SlowToCompile(), address = "--address " + daemon_.listen() + " ";
  grpc::Status failed;
  std::thread call([&] { client_.Prepare(graph, &failed); });
  HitCompiler({daemon_.pid()}, SIGSEGV);
  call.join();
  const Ended list = Uopctl(address + "quarantine list");
  EXPECT_EQ(list.code, 0);
  EXPECT_THAT(list.out, HasSubstr("compile"));
  EXPECT_THAT(list.out, HasSubstr("SIGSEGV"));
  const std::string id = list.out.substr(0, 16);
  EXPECT_EQ(Uopctl(address + "quarantine clear 0123456789abcdef").code, 5);
  EXPECT_EQ(Uopctl(address + "quarantine clear nothex").code, 2);
  EXPECT_EQ(Uopctl(address + "quarantine clear " + id).out, "1 cleared\n");
  EXPECT_EQ(Uopctl(address + "quarantine list").out, "");
  EXPECT_EQ(Uopctl(address + "quarantine clear").out, "0 cleared\n");
  grpc::Status again;
  client_.Prepare(graph, &again);
  EXPECT_TRUE(again.ok()) << again.error_message();

  // The graph is innocent: the failure does not repeat, unless no time is left for a repetition.
  const std::string text = failed.error_message();
  const size_t at = text.find("reproducer: ");
  ASSERT_NE(at, std::string::npos) << text;
  const std::string file = text.substr(at + 12, text.find(')', at) - at - 12);
  const Ended fine = Uopctl("replay " + file);
  EXPECT_EQ(fine.code, 0) << fine.out;
  EXPECT_THAT(fine.out, HasSubstr("does not fail"));
  const Ended late = Uopctl("replay --limit 0.001 " + file);
  EXPECT_EQ(late.code, 1) << late.out;
  EXPECT_THAT(late.out, HasSubstr("still fails: it takes longer"));
  EXPECT_EQ(Uopctl("replay /does/not/exist").code, 125);
  EXPECT_EQ(Uopctl("replay --uopd /does/not/exist " + file).code, 125);
  std::ofstream(folder_.path() / "no.uop") << "not a reproducer";
  EXPECT_EQ(Uopctl("replay " + (folder_.path() / "no.uop").string()).code, 125);
}

TEST_F(WorkersTest, ACompilerThatIsKilledOrStoppedCostsNothing) {
  for (int signal : {SIGKILL, SIGSTOP}) {
    grpc::Status status;
    std::thread call([&] { client_.Prepare(SlowToCompile(signal), &status); });
    HitCompiler({daemon_.pid()}, signal);
    call.join();
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  EXPECT_EQ(daemon_.Metric("uopd_worker_losses_total{pool=\"compile\"}"), 2);
  EXPECT_EQ(daemon_.Metric(kKills), 0);  // no job has been blamed
}

TEST_F(WorkersTest, TheForkServerIsReplaced) {
  int restarts = 0;
  for (int signal : {SIGKILL, SIGSTOP}) {
    ++restarts;
    const auto forks = Named(daemon_.pid(), "uopd-forks");
    ASSERT_EQ(forks.size(), 1u);
    ASSERT_EQ(kill(forks[0].pid, signal), 0);
    grpc::Status status;
    client_.Prepare(SlowToCompile(signal), &status);
    EXPECT_TRUE(status.ok()) << status.error_message();
    // The second check finds a fork server that was stopped.
    ASSERT_TRUE(test::Eventually(
        [&] { return daemon_.Metric("uopd_fork_server_restarts_total") >= restarts; }));
    while (daemon_.Http("/readyz").find("200 OK") == std::string::npos) std::this_thread::yield();
  }
  for (const Process& process : Descendants(daemon_.pid())) EXPECT_NE(process.state, 'Z');
}

TEST_F(WorkersTest, TheEndDoesNotWaitForStoppedChildren) {
  ExpectServes(daemon_);
  const auto processes = Descendants(daemon_.pid());
  ASSERT_GE(processes.size(), 2u);
  for (const Process& process : processes) ASSERT_EQ(kill(process.pid, SIGSTOP), 0);
  daemon_.Signal(SIGTERM);
  EXPECT_EQ(daemon_.Wait(), 0);
  for (const Process& process : processes) EXPECT_FALSE(test::IsAlive(process.pid));
}

TEST_F(WorkersTest, CompilersLeaveTheDaemonFirstTurn) {
  ExpectServes(daemon_);
  const auto compilers = Named(daemon_.pid(), "uopd-compile");
  ASSERT_FALSE(compilers.empty());
  EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(compilers[0].pid)),
            std::min(getpriority(PRIO_PROCESS, static_cast<id_t>(daemon_.pid())) + 5, 19));
}

TEST_F(WorkersTest, NoneOutlivesADaemonThatIsKilled) {
  ExpectServes(daemon_);
  const auto processes = Descendants(daemon_.pid());
  ASSERT_GE(processes.size(), 2u);  // the fork server and a worker
  daemon_.Signal(SIGKILL);
  EXPECT_EQ(daemon_.Wait(), -SIGKILL);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (const Process& process : processes) {
    while (test::IsAlive(process.pid) && std::chrono::steady_clock::now() < limit) {
      std::this_thread::yield();
    }
    EXPECT_FALSE(test::IsAlive(process.pid)) << process.name;
  }
}

TEST_F(WorkersTest, NoneOutlivesADaemonThatExits) {
  ExpectServes(daemon_);
  const auto processes = Descendants(daemon_.pid());
  daemon_.Signal(SIGTERM);
  EXPECT_EQ(daemon_.Wait(), 0);
  for (const Process& process : processes) {
    EXPECT_FALSE(test::IsAlive(process.pid)) << process.name;
  }
}

}  // namespace
}  // namespace uopd::e2e
