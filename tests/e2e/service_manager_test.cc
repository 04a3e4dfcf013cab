// SPDX-License-Identifier: MIT
// What the daemon tells a service manager by the protocol of sd_notify(3), as systemd would hear
// it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "core/base/unique_fd.h"
#include "tests/e2e/client.h"
#include "tests/support/processes.h"

namespace uopd::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kLimitMs = 60'000;

class ServiceManagerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    socket_.Reset(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const std::string path = (folder_.path() / "notify").string();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ASSERT_LT(path.size(), sizeof address.sun_path);
    path.copy(address.sun_path, path.size());
    ASSERT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  void TearDown() override {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(name);
  }
  // The next message; empty if none comes.
  std::string Next(int limit_ms = kLimitMs) const {
    pollfd fd{socket_.get(), POLLIN, 0};
    if (poll(&fd, 1, limit_ms) <= 0) return "";
    char text[4096];
    const ssize_t got = recv(socket_.get(), text, sizeof text, MSG_DONTWAIT);
    return {text, static_cast<size_t>(std::max<ssize_t>(got, 0))};
  }

  TemporaryFolder folder_;
  UniqueFd socket_;
};

TEST_F(ServiceManagerTest, HearsOfTheStartOfReloadsAndOfTheEnd) {
  DaemonProcess daemon(folder_.path(), {"--server-drain-timeout-ms=7s"});
  EXPECT_THAT(Next(), AllOf(HasSubstr("READY=1\n"),
                            HasSubstr("STATUS=serving gRPC at " + daemon.listen() + ", HTTP at ")));
  ExpectServes(daemon);
  daemon.Signal(SIGHUP);
  EXPECT_THAT(Next(), ::testing::MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[0-9]+\n"));
  EXPECT_THAT(Next(), AllOf(HasSubstr("READY=1\n"), HasSubstr("STATUS=serving")));
  daemon.Signal(SIGTERM);
  // The daemon's own limit and a margin: systemd must not kill it before.
  EXPECT_THAT(Next(), AllOf(StartsWith("STOPPING=1\n"), HasSubstr("STATUS=draining\n"),
                            HasSubstr("EXTEND_TIMEOUT_USEC=13500000\n")));
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_THAT(Next(0), IsEmpty());
}

TEST_F(ServiceManagerTest, ADaemonThatDoesNotStartIsNeverReady) {
  EXPECT_FALSE(test::Daemon::Start({.program = UOPD_BINARY,
                                    .folder = folder_.path().string(),
                                    .flags = {"--listen=nonsense"}})
                   .ok());
  EXPECT_THAT(Next(0), IsEmpty());
}

TEST_F(ServiceManagerTest, GetsSignsOfLifeUntilTheEnd) {
  setenv("WATCHDOG_USEC", "200000", 1);
  DaemonProcess daemon(folder_.path());
  EXPECT_THAT(Next(), HasSubstr("READY=1"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Next(), "WATCHDOG=1\n");
  daemon.Signal(SIGSTOP);
  while (!Next(1000).empty()) {
  }
  daemon.Signal(SIGCONT);
  EXPECT_EQ(Next(), "WATCHDOG=1\n");
  daemon.Signal(SIGTERM);
  std::string last;
  while ((last = Next()) == "WATCHDOG=1\n") {
  }
  // From now on the daemon ends itself if it hangs.
  EXPECT_THAT(last, AllOf(StartsWith("STOPPING=1\n"), HasSubstr("WATCHDOG_USEC=")));
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_THAT(Next(0), IsEmpty());
}

TEST_F(ServiceManagerTest, SignsOfLifeAreOfTheProcessThatTheManagerNames) {
  setenv("WATCHDOG_USEC", "100000", 1);
  setenv("WATCHDOG_PID", "1", 1);
  DaemonProcess daemon(folder_.path());
  EXPECT_THAT(Next(), HasSubstr("READY=1"));
  EXPECT_THAT(Next(1000), IsEmpty());
}

TEST_F(ServiceManagerTest, ADaemonOfAClientDoesNotSpeakForTheClient) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd watched(ends[0]), held(ends[1]);
  const UniqueFd given(dup(watched.get()));  // open in the daemon
  DaemonProcess daemon(folder_.path(), {"--server-owner-fd=" + std::to_string(given.get())});
  ExpectServes(daemon);
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_THAT(Next(0), IsEmpty());
}

TEST_F(ServiceManagerTest, ChildrenDoNotKnowTheManager) {
  setenv("WATCHDOG_USEC", "60000000", 1);
  setenv("MARK_OF_THIS_TEST", "here", 1);
  DaemonProcess daemon(folder_.path());
  unsetenv("MARK_OF_THIS_TEST");
  ExpectServes(daemon);  // with a worker
  const std::vector<test::Process> children = test::Descendants(daemon.pid());
  ASSERT_FALSE(children.empty());
  for (const test::Process& child : children) {
    EXPECT_THAT(ReadFile("/proc/" + std::to_string(child.pid) + "/environ"),
                AllOf(HasSubstr("MARK_OF_THIS_TEST=here"), Not(HasSubstr("NOTIFY_SOCKET")),
                      Not(HasSubstr("WATCHDOG"))))
        << child.name;
  }
}

}  // namespace
}  // namespace uopd::e2e
