// SPDX-License-Identifier: MIT
#include "server/net/listener.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace uopd::net {
namespace {

class ListenerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "uopd-net-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ + "/socket";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Address Unix() const { return {.kind = Address::kUnix, .path = path_}; }
  bool Answers() const {
    const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::memcpy(to.sun_path, path_.data(), path_.size());
    return connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  // A socket file as a process that was killed leaves it.
  void LeaveSocketFile() const {
    const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, path_.data(), path_.size());
    ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  }
  mode_t Mode() const {
    struct stat status{};
    stat(path_.c_str(), &status);
    return status.st_mode & 07777;
  }

  std::string folder_, path_;
};

TEST_F(ListenerTest, TakesAFreePortAndNoneThatAnotherHas) {
  const auto first = Listener::Listen(*ParseAddress("127.0.0.1:0"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_GT((*first)->address().port, 0);
  const auto second = Listener::Listen((*first)->address());
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
}

// An address is taken before anybody can connect there.
TEST_F(ListenerTest, IsBoundFirstAndOpenLater) {
  const auto listener = Listener::Bind(Unix());
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_FALSE(Answers());
  EXPECT_TRUE(absl::IsUnavailable(Listener::Bind(Unix()).status()));
  ASSERT_TRUE((*listener)->Open().ok());
  EXPECT_TRUE(Answers());
  const auto tcp = Listener::Listen(*ParseAddress("127.0.0.1:0"));
  ASSERT_TRUE(tcp.ok());
  EXPECT_TRUE(absl::IsUnavailable(Listener::Bind((*tcp)->address()).status()));
}

// Two daemons that start at the same time: the second one must hear of it before it opens anything.
TEST_F(ListenerTest, APortThatIsBoundAndNotOpenIsTaken) {
  for (const char* host : {"127.0.0.1:0", "[::1]:0"}) {
    const auto first = Listener::Bind(*ParseAddress(host));
    if (!first.ok()) continue;  // a machine without IPv6
    EXPECT_TRUE(absl::IsUnavailable(Listener::Bind((*first)->address()).status())) << host;
    EXPECT_TRUE((*first)->Open().ok());
  }
}

// Connections that the dead process had closed would keep its port for a minute.
TEST_F(ListenerTest, APortWithClosedConnectionsIsFree) {
  auto first = Listener::Listen(*ParseAddress("127.0.0.1:0"));
  ASSERT_TRUE(first.ok()) << first.status();
  const Address address = (*first)->address();
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(address.port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  UniqueFd client(socket(AF_INET, SOCK_STREAM, 0));
  ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  UniqueFd served;
  while (!served) served.Reset(accept((*first)->sockets().front().get(), nullptr, nullptr));
  served.Reset();  // closed here first, so the wait is on this side
  client.Reset();
  first->reset();
  const auto next = Listener::Listen(address);
  EXPECT_TRUE(next.ok()) << next.status();
}

TEST_F(ListenerTest, ASecondProcessDoesNotGetTheSocketOfTheFirst) {
  auto first = Listener::Listen(Unix());
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = Listener::Listen(Unix());
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_NE(second.status().message().find("served by process"), absl::string_view::npos)
      << second.status();
  EXPECT_TRUE(Answers());
  first->reset();
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  EXPECT_TRUE(Listener::Listen(Unix()).ok());
}

TEST_F(ListenerTest, ASocketThatAnswersWithoutALockIsRefused) {
  auto first = Listener::Listen(Unix());
  ASSERT_TRUE(first.ok());
  std::filesystem::remove(path_ + ".lock");  // as if it had never had one
  const auto second = Listener::Listen(Unix());
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_TRUE(Answers());
}

TEST_F(ListenerTest, ASocketFileThatADeadProcessLeftIsReplaced) {
  LeaveSocketFile();
  EXPECT_FALSE(Answers());
  const auto listener = Listener::Listen(Unix());
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_TRUE(Answers());
}

TEST_F(ListenerTest, AFileThatIsNoSocketStays) {
  std::ofstream(path_) << "precious";
  const auto listener = Listener::Listen(Unix());
  EXPECT_TRUE(absl::IsUnavailable(listener.status())) << listener.status();
  EXPECT_EQ(std::filesystem::file_size(path_), 8U);
}

TEST_F(ListenerTest, ASocketFileOfAnotherProcessIsNotRemovedAtTheEnd) {
  auto first = Listener::Listen(Unix());
  ASSERT_TRUE(first.ok());
  std::filesystem::remove(path_);
  LeaveSocketFile();
  first->reset();
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(ListenerTest, TheModeIsWhatTheSettingsSay) {
  const mode_t before = umask(0077);
  for (const auto& [mode, expected] :
       {std::pair("", 0600U), std::pair("0660", 0660U), std::pair("777", 0777U)}) {
    const auto listener = Listener::Listen(Unix(), {.mode = mode});
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_EQ(Mode(), expected) << mode;
  }
  const auto grouped = Listener::Listen(Unix(), {.group = std::to_string(getgid())});
  EXPECT_TRUE(grouped.ok()) << grouped.status();
  EXPECT_EQ(Mode(), 0660U);
  umask(before);
  for (const char* mode : {"rw", "0999", "1777"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Listener::Listen(Unix(), {.mode = mode}).status())) << mode;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(
      Listener::Listen(Unix(), {.group = "no group has this name"}).status()));
}

}  // namespace
}  // namespace uopd::net
