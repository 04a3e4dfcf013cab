// SPDX-License-Identifier: MIT
// Signals to the daemon: settings read again, log files rotated, drains that are cut short.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

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
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_THAT(daemon.Log(), HasSubstr("msg=drained all_finished=false"));
}

}  // namespace
}  // namespace uopd::e2e
