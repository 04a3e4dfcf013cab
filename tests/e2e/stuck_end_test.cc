// SPDX-License-Identifier: MIT
// The daemon serves and ends in time even if something does not answer: the reader of its log, or
// one of its own threads.
#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "core/base/unique_fd.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"

namespace uopd::e2e {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

TEST(StuckEndTest, ALogReaderThatReadsNothingStopsNobody) {
  TemporaryFolder folder;
  const std::string pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const UniqueFd both(open(pipe.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(both);
  const std::string page(4096, '\n');
  while (write(both.get(), page.data(), page.size()) > 0) {
  }
  DaemonProcess daemon(folder.path(), {"--log-file=" + pipe});
  ASSERT_TRUE(daemon.running());
  ExpectServes(daemon);
  EXPECT_GE(daemon.Metric("uopd_log_lines_lost_total"), 1);
  const auto begin = Clock::now();
  daemon.Signal(SIGHUP);
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_LT(Clock::now() - begin, std::chrono::minutes(1));
}

// A thread of a process, found by its name; 0: none.
pid_t ThreadOf(pid_t process, const std::string& name) {
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  pid_t found = 0;
  DIR* const folder = opendir(tasks.c_str());
  if (folder == nullptr) return 0;
  while (const dirent* entry = readdir(folder)) {
    if (ReadFile(tasks + "/" + entry->d_name + "/comm") != name + "\n") continue;
    found = static_cast<pid_t>(std::atoi(entry->d_name));
  }
  closedir(folder);
  return found;
}

TEST(StuckEndTest, AThreadThatDoesNotEndIsLeftBehind) {
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path(), {"--server-drain-timeout-ms=50ms", "--device-cpu-threads=2"});
  ASSERT_TRUE(daemon.running());
  ExpectServes(daemon);
  const pid_t thread = ThreadOf(daemon.pid(), "uopd-cpu");
  ASSERT_GT(thread, 0);
  if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
    ASSERT_EQ(errno, EPERM) << "of ptrace";
    GTEST_SKIP() << "this machine forbids ptrace";
  }
  EXPECT_EQ(ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr), 0);
  int status = 0;
  EXPECT_EQ(waitpid(thread, &status, __WALL), thread);
  EXPECT_TRUE(WIFSTOPPED(status));
  const auto begin = Clock::now();
  daemon.Signal(SIGTERM);
  // The thread's end is told to its tracer first, then the process's to its parent.
  while (waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status)) {
  }
  EXPECT_EQ(daemon.Wait(), 3);
  const auto took = Clock::now() - begin;
  EXPECT_GE(took, std::chrono::milliseconds(1500));
  EXPECT_LT(took, std::chrono::minutes(1));
  EXPECT_THAT(daemon.Log(), HasSubstr("msg=\"still running after the drain, giving up\" "
                                      "ending=engine exit_status=3"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "ready.json"));
}

}  // namespace
}  // namespace uopd::e2e
