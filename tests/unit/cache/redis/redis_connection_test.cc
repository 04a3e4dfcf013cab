// SPDX-License-Identifier: MIT
// Connections to a real Redis: plain, by a socket, by TLS, with passwords, and to one that does not
// answer.
#include "cache/redis/redis_connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "core/base/status.h"
#include "tests/support/redis/redis_process.h"

namespace uopd::cache {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Deadline Soon(int ms = 5000) { return steady_clock::now() + milliseconds(ms); }

absl::StatusOr<std::unique_ptr<RedisConnection>> ConnectTo(const test::RedisProcess& redis,
                                                           const RedisLogin& login = {},
                                                           const TlsContext* tls = nullptr,
                                                           const std::string& host = "127.0.0.1") {
  Resolver resolver;
  UOPD_ASSIGN(auto transport, Transport::Connect({host, redis.port()}, resolver, tls, Soon()));
  return RedisConnection::Login(std::move(transport), login, Soon());
}

class RedisConnectionTest : public ::testing::Test {
 protected:
  RedisConnectionTest() { std::signal(SIGPIPE, SIG_IGN); }
  void Start(const test::RedisOptions& options = {}) {
    auto started = test::RedisProcess::Start(options);
    ASSERT_TRUE(started.ok()) << started.status();
    redis_ = *std::move(started);
  }
  std::unique_ptr<test::RedisProcess> redis_;
};

TEST_F(RedisConnectionTest, StoresBytes) {
  Start();
  auto connection = ConnectTo(*redis_);
  ASSERT_TRUE(connection.ok()) << connection.status();
  for (const size_t size : {size_t{0}, size_t{10}, size_t{3'000'000}}) {
    std::string value(size, '\0');
    for (size_t i = 0; i < size; ++i) value[i] = static_cast<char>(i * 7);
    const std::vector<RedisConnection::Command> commands = {
        {"SET", "k", value}, {"GET", "k"}, {"NOSUCH"}, {"DEL", "k"}};
    const auto replies = (*connection)->RunAll(commands, Soon());
    ASSERT_TRUE(replies.ok()) << replies.status();
    EXPECT_EQ((*replies)[0].text, "OK");
    EXPECT_EQ((*replies)[1].text, value);
    EXPECT_TRUE(IsError((*replies)[2], "ERR unknown command"));
    EXPECT_EQ((*replies)[3].integer, 1);
  }
}

TEST_F(RedisConnectionTest, DatabasesAndSockets) {
  Start();
  auto transport = Transport::ConnectUnix(redis_->socket(), Soon());
  ASSERT_TRUE(transport.ok()) << transport.status();
  auto other = RedisConnection::Login(*std::move(transport), {.database = 3}, Soon());
  ASSERT_TRUE(other.ok()) << other.status();
  ASSERT_TRUE((*other)->Run({"SET", "k", "v"}, Soon()).ok());
  auto first = ConnectTo(*redis_);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)->Run({"GET", "k"}, Soon())->kind, RespKind::kNull);
  EXPECT_TRUE(absl::IsInvalidArgument(ConnectTo(*redis_, {.database = 99}).status()));
}

TEST_F(RedisConnectionTest, Passwords) {
  Start({.flags = {"--requirepass", "right"}});
  EXPECT_TRUE(ConnectTo(*redis_, {.password = "right"}).ok());
  EXPECT_TRUE(absl::IsUnauthenticated(ConnectTo(*redis_).status()));
  const absl::Status wrong = ConnectTo(*redis_, {.password = "hunter2"}).status();
  EXPECT_TRUE(absl::IsUnauthenticated(wrong)) << wrong;
  EXPECT_EQ(wrong.message().find("hunter2"), std::string::npos) << wrong;
}

TEST_F(RedisConnectionTest, TlsChecksTheServersNameAndCertificate) {
  Start({.tls = true});
  const auto trusted = TlsContext::Make(redis_->ca_file(), "", "");
  ASSERT_TRUE(trusted.ok()) << trusted.status();
  for (const char* host : {"127.0.0.1", "localhost"}) {
    auto connection = ConnectTo(*redis_, {}, &*trusted, host);
    ASSERT_TRUE(connection.ok()) << connection.status();
    const std::string value(500'000, 'v');
    ASSERT_TRUE((*connection)->Run({"SET", "k", value}, Soon()).ok());
    EXPECT_EQ((*connection)->Run({"GET", "k"}, Soon())->text, value);
  }
  EXPECT_FALSE(ConnectTo(*redis_, {}, &*trusted, "127.0.0.2").ok());
  const auto machine = TlsContext::Make("", "", "");
  ASSERT_TRUE(machine.ok()) << machine.status();
  const absl::Status refused = ConnectTo(*redis_, {}, &*machine).status();
  EXPECT_NE(refused.message().find("not trusted"), std::string::npos) << refused;
  EXPECT_FALSE(ConnectTo(*redis_).ok()) << "the port takes TLS only";
}

TEST_F(RedisConnectionTest, ClientsCertificates) {
  Start({.flags = {"--tls-auth-clients", "yes"}, .tls = true});
  const std::string folder = redis_->folder();
  const auto with = TlsContext::Make(redis_->ca_file(), folder + "/cert.pem", folder + "/key.pem");
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_TRUE(ConnectTo(*redis_, {}, &*with).ok());
  const auto without = TlsContext::Make(redis_->ca_file(), "", "");
  EXPECT_FALSE(ConnectTo(*redis_, {}, &*without).ok());
  EXPECT_FALSE(TlsContext::Make(redis_->ca_file(), folder + "/cert.pem", "").ok());
  EXPECT_FALSE(TlsContext::Make(folder + "/missing", "", "").ok());
  chmod((folder + "/key.pem").c_str(), 0644);
  EXPECT_TRUE(absl::IsPermissionDenied(
      TlsContext::Make(redis_->ca_file(), folder + "/cert.pem", folder + "/key.pem").status()));
}

TEST_F(RedisConnectionTest, AServerThatDoesNotAnswerCostsTheDeadline) {
  Start();
  auto connection = ConnectTo(*redis_);
  ASSERT_TRUE(connection.ok()) << connection.status();
  redis_->Pause();
  const auto begin = steady_clock::now();
  const absl::Status late = (*connection)->Run({"PING"}, Soon(50)).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_GE(steady_clock::now() - begin, milliseconds(50));
  redis_->Continue();
  EXPECT_FALSE((*connection)->usable());
  EXPECT_TRUE(absl::IsUnavailable((*connection)->Run({"PING"}, Soon()).status()))
      << "the late reply must not be taken for another one";
}

// A server that sends all the time never makes its reader wait, and one that takes all the time
// never its writer. So the deadline is asked for before each piece.
TEST_F(RedisConnectionTest, ADeadlineEndsReadsAndWritesThatNeedNotWait) {
  std::string folder = (std::filesystem::temp_directory_path() / "uopd-flood-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/socket";
  const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  auto transport = Transport::ConnectUnix(path, Soon());
  ASSERT_TRUE(transport.ok()) << transport.status();
  const UniqueFd server(accept(listener.get(), nullptr, nullptr));
  std::string read;
  for (const bool over : {false, true}) {
    ASSERT_EQ(send(server.get(), "+OK\r\n", 5, MSG_NOSIGNAL), 5);
    const Deadline deadline = Soon(over ? -1 : 5000);
    EXPECT_EQ(absl::IsDeadlineExceeded((*transport)->Read(read, deadline)), over);
    EXPECT_EQ(absl::IsDeadlineExceeded((*transport)->Write("PING\r\n", deadline)), over);
  }
  EXPECT_EQ(read, "+OK\r\n");
  std::filesystem::remove_all(folder);
}

TEST_F(RedisConnectionTest, AServerThatEndsIsUnavailable) {
  Start();
  auto connection = ConnectTo(*redis_);
  ASSERT_TRUE(connection.ok()) << connection.status();
  redis_->Kill();
  EXPECT_TRUE(absl::IsUnavailable((*connection)->Run({"PING"}, Soon()).status()));
  EXPECT_TRUE(absl::IsUnavailable(ConnectTo(*redis_).status()));
  ASSERT_TRUE(redis_->Restart().ok());
  EXPECT_TRUE(ConnectTo(*redis_).ok());
}

}  // namespace
}  // namespace uopd::cache
