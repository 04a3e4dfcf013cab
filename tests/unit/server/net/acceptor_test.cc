// SPDX-License-Identifier: MIT
#include "server/net/acceptor.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <condition_variable>
#include <thread>
#include <vector>

#include "core/base/mutex.h"
#include "tests/support/http2/frames.h"

namespace uopd::net {
namespace {

constexpr std::chrono::seconds kPatience{30};

class AcceptorTest : public ::testing::Test {
 protected:
  void Start(AcceptorOptions options) {
    if (options.greeting.empty()) options.greeting = "HELLO";
    listener_ = *Listener::Listen(*ParseAddress("127.0.0.1:0"));
    acceptor_ = std::make_unique<Acceptor>(*listener_, std::move(options), [this](int, int fd) {
      MutexLock lock(mu_);
      taken_.emplace_back(fd);
      changed_.notify_all();
    });
  }
  UniqueFd Connect(const std::string& says = "") const {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(listener_->address().port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    if (!says.empty()) {
      EXPECT_EQ(write(fd.get(), says.data(), says.size()), static_cast<ssize_t>(says.size()));
    }
    return fd;
  }
  bool AwaitTaken(size_t n) {
    MutexLock lock(mu_);
    return lock.WaitUntil(changed_, std::chrono::steady_clock::now() + kPatience,
                          [&]() UOPD_REQUIRES(mu_) { return taken_.size() >= n; });
  }
  size_t taken() {
    MutexLock lock(mu_);
    return taken_.size();
  }
  void CloseTaken() {
    MutexLock lock(mu_);
    taken_.clear();
  }
  // True once the other side has closed.
  static bool AwaitClosed(const UniqueFd& fd) {
    pollfd wait{fd.get(), POLLIN, 0};
    char byte;
    return poll(&wait, 1, static_cast<int>(kPatience.count()) * 1000) == 1 &&
           read(fd.get(), &byte, 1) <= 0;
  }

  Mutex mu_;
  std::condition_variable changed_;
  std::vector<UniqueFd> taken_ UOPD_GUARDED_BY(mu_);
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Acceptor> acceptor_;
};

TEST_F(AcceptorTest, WhoeverGreetsIsHandedOverWithAllThatItSaid) {
  Start({});
  const UniqueFd in_parts = Connect("HEL");
  const UniqueFd at_once = Connect("HELLO AND MORE");
  ASSERT_TRUE(AwaitTaken(1));
  {
    MutexLock lock(mu_);
    char said[64] = "";
    EXPECT_EQ(read(taken_[0].get(), said, sizeof said - 1), 14);
    EXPECT_STREQ(said, "HELLO AND MORE");
  }
  ASSERT_EQ(write(in_parts.get(), "LO", 2), 2);
  ASSERT_TRUE(AwaitTaken(2));
}

TEST_F(AcceptorTest, OtherWordsEndTheConnection) {
  Start({});
  EXPECT_TRUE(AwaitClosed(Connect("GET / HTTP/1.0\r\n\r\n")));
  EXPECT_EQ(taken(), 0U);
}

TEST_F(AcceptorTest, SilentConnectionsEndAfterAWhile) {
  Start({.greeting_limit = std::chrono::milliseconds(50)});
  EXPECT_TRUE(AwaitClosed(Connect()));
}

TEST_F(AcceptorTest, SilentConnectionsKeepNobodyOut) {
  Start({.greeting_limit = std::chrono::hours(1), .max_silent = 8});
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(Connect());
  const UniqueFd client = Connect("HELLO");
  ASSERT_TRUE(AwaitTaken(1));
  EXPECT_TRUE(AwaitClosed(silent.front()));
}

TEST_F(AcceptorTest, KnowsWhatIsStillOnTheWayToPeers) {
  Start({});
  const UniqueFd slow = Connect("HELLO");
  ASSERT_TRUE(AwaitTaken(1));
  EXPECT_EQ(acceptor_->UnconfirmedBytes(), 0u);
  // The peer reads nothing: what its system has no room for stays on this side.
  std::vector<char> data(1 << 20);
  size_t sent = 0;
  {
    MutexLock lock(mu_);
    for (ssize_t n; (n = send(taken_[0].get(), data.data(), data.size(), MSG_DONTWAIT)) > 0;)
      sent += static_cast<size_t>(n);
  }
  EXPECT_GT(acceptor_->UnconfirmedBytes(), 0u);
  for (size_t came = 0; came < sent;) {
    const ssize_t n = read(slow.get(), data.data(), data.size());
    ASSERT_GT(n, 0);
    came += static_cast<size_t>(n);
  }
  // The confirmation of the last bytes is on its way.
  for (int i = 0; i < 1000 && acceptor_->UnconfirmedBytes() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(acceptor_->UnconfirmedBytes(), 0u);
  CloseTaken();
  EXPECT_EQ(acceptor_->UnconfirmedBytes(), 0u);
}

TEST_F(AcceptorTest, OneMoreThanALimitIsClosedUntilAnotherEnds) {
  Start({.max_per_peer = 2});
  std::vector<UniqueFd> open;
  for (size_t i = 1; i <= 2; ++i) {
    open.push_back(Connect("HELLO"));
    ASSERT_TRUE(AwaitTaken(i));
  }
  EXPECT_TRUE(AwaitClosed(Connect("HELLO")));
  EXPECT_EQ(taken(), 2U);
  CloseTaken();
  const UniqueFd next = Connect("HELLO");
  EXPECT_TRUE(AwaitTaken(1));
}

TEST_F(AcceptorTest, AGuardEndsConnectionsAndTheirPeerGetsFewNewOnes) {
  using test::http2::Frame;
  using test::http2::Type;
  const std::string greeting = test::http2::Greeting();
  std::vector<std::string> ended, refused;  // the latter is written by the acceptor's thread
  Mutex mu;
  Start({.greeting = greeting.substr(0, 24),
         .on_refused =
             [&](const char* reason) {
               MutexLock lock(mu);
               refused.emplace_back(reason);
             },
         .frames = FrameLimits{.header_bytes = 100},
         .on_ended = [&](const std::string& peer,
                         const char* reason) { ended.push_back(peer + " " + reason); }});
  const UniqueFd client = Connect(greeting + Frame(Type::kHeaders, 0, 1, std::string(101, 'x')));
  ASSERT_TRUE(AwaitTaken(1));
  {
    MutexLock lock(mu_);
    char bytes[200];
    iovec part{bytes, sizeof bytes};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    EXPECT_EQ(recvmsg(taken_[0].get(), &message, 0), -1);
    EXPECT_EQ(errno, ECONNRESET);
  }
  EXPECT_EQ(ended, std::vector<std::string>{"127.0.0.1 header block"});
  EXPECT_TRUE(AwaitClosed(client));

  // Two a second are admitted.
  std::vector<UniqueFd> next;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (bool is_refused = false; !is_refused && std::chrono::steady_clock::now() < deadline;) {
    next.push_back(Connect(greeting));
    MutexLock lock(mu);
    is_refused = !refused.empty();
  }
  acceptor_ = nullptr;  // calls no more
  MutexLock lock(mu);
  ASSERT_FALSE(refused.empty());
  EXPECT_EQ(refused[0], "peer sent too much");
}

TEST(PeerCounts, KnowOnlyPeersThatHaveAConnection) {
  PeerCounts counts;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(counts.Of("refused " + std::to_string(i)), 0U);
  EXPECT_EQ(counts.peers(), 0U);
  counts.Add("a");
  counts.Add("a");
  counts.Add("b");
  EXPECT_EQ(counts.Of("a"), 2U);
  EXPECT_EQ(counts.peers(), 2U);
  counts.Remove("a");
  counts.Remove("b");
  EXPECT_EQ(counts.Of("a"), 1U);
  EXPECT_EQ(counts.Of("b"), 0U);
  EXPECT_EQ(counts.peers(), 1U);
  counts.Remove("a");
  EXPECT_EQ(counts.peers(), 0U);
}

}  // namespace
}  // namespace uopd::net
