// SPDX-License-Identifier: MIT
// Signals to the daemon: settings read again, log files rotated, drains that are cut short.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "core/base/unique_fd.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"

namespace uopd::e2e {
namespace {

using test::Eventually;
using ::testing::HasSubstr;
using ::testing::Not;

class SignalsTest : public ::testing::Test {
 protected:
  void WriteConfig(const std::string& text) const { std::ofstream(config_) << text; }
  std::string FlagOfConfig() const { return "--config=" + config_.string(); }

  TemporaryFolder folder_;
  const std::filesystem::path config_ = folder_.path() / "uopd.toml";
};

// A call that keeps the daemon busy for seconds.
class TimedCall {
 public:
  explicit TimedCall(const DaemonProcess& daemon) : client_(daemon) {
    EXPECT_TRUE(client_.OpenSession().ok());
    client_.Prepare(PairsGraph(kElements));
    thread_ = std::thread([this] {
      const std::string ones = Bytes(std::vector<float>(kElements, 1));
      status_ =
          client_.Execute("", PairsGraph(kElements), {Buffer(1), Data(ones), Data(ones)}).status;
    });
    EXPECT_TRUE(Eventually([&] { return daemon.Metric("uopd_rpc_in_flight") == 1; }));
  }
  ~TimedCall() {
    if (thread_.joinable()) thread_.join();
  }
  const grpc::Status& Join() {
    thread_.join();
    return status_;
  }

 private:
  static constexpr int64_t kElements = 1 << 17;
  Client client_;
  grpc::Status status_;
  std::thread thread_;
};

TEST_F(SignalsTest, HangupReadsTheSettingsAgain) {
  WriteConfig("[limits]\nsessions = 1\n");
  DaemonProcess daemon(folder_.path(), {FlagOfConfig()});
  Client first(daemon), second(daemon);
  ASSERT_TRUE(first.OpenSession().ok());
  EXPECT_EQ(second.OpenSession().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  WriteConfig("[limits]\nsessions = 2\n[compile]\nthreads = 3\n");
  daemon.Signal(SIGHUP);
  EXPECT_TRUE(Eventually([&] { return second.OpenSession().ok(); })) << daemon.Log();
  EXPECT_THAT(daemon.Log(), HasSubstr("msg=\"setting needs a restart\" key=compile.threads"));
  EXPECT_THAT(daemon.Log(), Not(HasSubstr("key=limits.sessions")));
}

TEST_F(SignalsTest, HangupWithWrongSettingsChangesNothing) {
  WriteConfig("[limits]\nsessions = 1\n");
  DaemonProcess daemon(folder_.path(), {FlagOfConfig()});
  WriteConfig("[limits]\nsessions = 0\n");
  daemon.Signal(SIGHUP);
  EXPECT_TRUE(
      Eventually([&] { return daemon.Log().find("settings not reloaded") != std::string::npos; }));
  ExpectServes(daemon);
}

TEST_F(SignalsTest, HangupOpensTheLogFileAgain) {
  DaemonProcess daemon(folder_.path());
  std::filesystem::rename(folder_.path() / "log", folder_.path() / "log.1");
  daemon.Signal(SIGHUP);
  EXPECT_TRUE(
      Eventually([&] { return daemon.Log().find("settings reloaded") != std::string::npos; }));
  EXPECT_THAT(ReadFile(folder_.path() / "log.1"), HasSubstr("msg=serving"));
  EXPECT_THAT(daemon.Log(), Not(HasSubstr("msg=serving")));
}

// Standard error of this process, and of those that it starts, in a file.
class StderrIn {
 public:
  explicit StderrIn(const std::string& path) : before_(dup(STDERR_FILENO)) {
    const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    dup2(file.get(), STDERR_FILENO);
  }
  ~StderrIn() { dup2(before_.get(), STDERR_FILENO); }

 private:
  const UniqueFd before_;
};

// The other settings count all the same, and the log goes on where it was.
TEST_F(SignalsTest, ALogFileThatCannotBeOpenedAgainIsSaid) {
  const std::string said = folder_.path() / "stderr";
  WriteConfig("[limits]\nsessions = 1\n");
  std::optional<DaemonProcess> daemon;
  {
    const StderrIn file(said);
    daemon.emplace(folder_.path(), std::vector{FlagOfConfig()});
  }
  Client first(*daemon), second(*daemon);
  ASSERT_TRUE(first.OpenSession().ok());
  std::filesystem::rename(folder_.path() / "log", folder_.path() / "log.1");
  std::filesystem::create_directory(folder_.path() / "log");  // in its place
  WriteConfig("[limits]\nsessions = 2\n");
  daemon->Signal(SIGHUP);
  EXPECT_TRUE(Eventually([&] { return second.OpenSession().ok(); }));
  EXPECT_THAT(ReadFile(said), HasSubstr("cannot be opened"));
  const std::string log = ReadFile(folder_.path() / "log.1");
  EXPECT_THAT(log, HasSubstr("the log file is not opened again"));
  EXPECT_TRUE(Eventually([&] {
    return ReadFile(folder_.path() / "log.1").find("settings reloaded") != std::string::npos;
  }));
}

// A wrong setting keeps the settings, and nothing else: the log is rotated.
TEST_F(SignalsTest, TheLogFileIsOpenedAgainWhateverTheSettingsAre) {
  WriteConfig("[limits]\nsessions = 1\n");
  DaemonProcess daemon(folder_.path(), {FlagOfConfig()});
  WriteConfig("[limits]\nsessions = 0\n");
  std::filesystem::rename(folder_.path() / "log", folder_.path() / "log.1");
  daemon.Signal(SIGHUP);
  EXPECT_TRUE(
      Eventually([&] { return daemon.Log().find("settings not reloaded") != std::string::npos; }));
  EXPECT_THAT(daemon.Log(), HasSubstr("uopd.toml:2: setting limits.sessions (0)"));
}

// Processes below the daemon, of every generation.
std::vector<pid_t> ProcessesBelow(pid_t process) {
  std::vector<pid_t> out;
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
    std::istringstream children(ReadFile(thread.path() / "children"));
    for (pid_t child; children >> child;) {
      out.push_back(child);
      for (const pid_t below : ProcessesBelow(child)) out.push_back(below);
    }
  }
  return out;
}

// Other programs write their state at such a signal; people try.
TEST_F(SignalsTest, StraySignalsEndNothing) {
  DaemonProcess daemon(folder_.path());
  ExpectServes(daemon);
  const std::vector<pid_t> before = ProcessesBelow(daemon.pid());
  ASSERT_GE(before.size(), 2u);  // uopd-forks and a worker
  for (const int signal : {SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPIPE}) {
    daemon.Signal(signal);
    for (const pid_t process : before) ASSERT_EQ(kill(process, signal), 0) << signal;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // nothing is to happen
  ExpectServes(daemon);
  for (const pid_t process : before) EXPECT_EQ(kill(process, 0), 0);
  EXPECT_EQ(daemon.Metric("uopd_fork_server_restarts_total"), 0);
  EXPECT_THAT(daemon.Log(), Not(HasSubstr("killed by")));
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
}

TEST_F(SignalsTest, ASecondSignalDoesNotWaitForTheFirst) {
  DaemonProcess daemon(folder_.path());
  TimedCall call(daemon);
  daemon.Signal(SIGTERM);
  ASSERT_TRUE(Eventually([&] { return daemon.Log().find("draining") != std::string::npos; }));
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 130);
  EXPECT_FALSE(call.Join().ok());
}

TEST_F(SignalsTest, ADrainEndsWithItsTime) {
  DaemonProcess daemon(folder_.path(), {"--server-drain-timeout-ms=50ms"});
  TimedCall call(daemon);
  daemon.Signal(SIGTERM);
  EXPECT_FALSE(call.Join().ok());
  EXPECT_EQ(daemon.Wait(), 4);
  EXPECT_THAT(daemon.Log(), HasSubstr("level=warn msg=\"the drain was cut short by "
                                      "server.drain_timeout_ms\" requests=1 sessions=1 ms=50"));
}

}  // namespace
}  // namespace uopd::e2e
