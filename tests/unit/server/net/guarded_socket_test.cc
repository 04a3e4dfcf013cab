// SPDX-License-Identifier: MIT
// The functions of the C library that the guard stands before, called as gRPC calls them.
#include "server/net/guarded_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "core/base/unique_fd.h"
#include "tests/support/http2/frames.h"

namespace uopd::net {
namespace {

using test::http2::Frame;
using test::http2::Greeting;
using test::http2::Type;

const std::string kEndless = Frame(Type::kHeaders, 0, 1, "x") + Frame(Type::kContinuation, 0, 1) +
                             Frame(Type::kContinuation, 0, 1) + Frame(Type::kContinuation, 0, 1) +
                             Frame(Type::kContinuation, 0, 1);

class GuardedSocketTest : public ::testing::Test {
 protected:
  GuardedSocketTest() {
    int pair[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    server_ = UniqueFd(pair[0]), client_ = UniqueFd(pair[1]);
  }
  void Guard() {
    ASSERT_TRUE(
        GuardSocket(server_.get(), {},
                    {.on_refused = [this](const char* reason) { refused_.push_back(reason); },
                     .on_closed = [this](const GuardedBytes& bytes) { closed_ = bytes; }}));
  }
  void Say(const std::string& bytes) const {
    ASSERT_EQ(send(client_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  // By small buffers, so that frames are cut.
  ssize_t Receive(int flags = 0) const {
    char bytes[3][20];
    iovec parts[3] = {{bytes[0], 20}, {bytes[1], 1}, {bytes[2], 20}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 3;
    return recvmsg(server_.get(), &message, flags);
  }

  UniqueFd server_, client_;
  std::vector<std::string> refused_;
  std::optional<GuardedBytes> closed_;
};

TEST_F(GuardedSocketTest, WhatMayBeParsedIsReceived) {
  Guard();
  Say(Greeting());
  EXPECT_EQ(Receive(), 33);
  EXPECT_EQ(Receive(), -1);
  EXPECT_EQ(errno, EAGAIN);
  char byte = 'x';
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  EXPECT_EQ(sendmsg(server_.get(), &message, 0), 1);
  EXPECT_EQ(read(client_.get(), &byte, 1), 1);
  EXPECT_FALSE(closed_.has_value());
  server_.Reset();
  ASSERT_TRUE(closed_.has_value());
  EXPECT_EQ(closed_->received, 33U);
  EXPECT_TRUE(closed_->sent);
  EXPECT_FALSE(closed_->ended);
  EXPECT_TRUE(refused_.empty());
}

TEST_F(GuardedSocketTest, WhatMayNotBeParsedEndsTheConnection) {
  Guard();
  Say(Greeting() + kEndless);
  EXPECT_EQ(Receive(), 41);
  ssize_t received = 0;
  while ((received = Receive()) > 0) {
  }
  EXPECT_EQ(received, -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_EQ(refused_, std::vector<std::string>{"header block pieces"});
  char byte;
  EXPECT_EQ(read(client_.get(), &byte, 1), 0) << "it is shut down for the client";
  EXPECT_LE(Receive(), 0);
  EXPECT_EQ(refused_.size(), 1U);
  server_.Reset();
  EXPECT_TRUE(closed_->ended);
}

TEST_F(GuardedSocketTest, KnowsWhetherThePeerHasEnded) {
  Guard();
  Say(Greeting());
  EXPECT_EQ(Receive(), 33);
  client_.Reset();
  EXPECT_EQ(Receive(), 0);
  server_.Reset();
  EXPECT_TRUE(closed_->ended);
}

TEST_F(GuardedSocketTest, KnowsWhetherTheConnectionBroke) {
  Guard();
  client_.Reset();
  char byte = 'x';
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  EXPECT_EQ(sendmsg(server_.get(), &message, MSG_NOSIGNAL), -1);
  EXPECT_EQ(errno, EPIPE);
  server_.Reset();
  EXPECT_TRUE(closed_->ended);
}

TEST_F(GuardedSocketTest, WhatIsOnlyLookedAtIsNotCountedTwice) {
  Guard();
  Say(Greeting());
  EXPECT_EQ(Receive(MSG_PEEK), 33);
  EXPECT_EQ(Receive(), 33);
  server_.Reset();
  EXPECT_EQ(closed_->received, 33U);
}

TEST_F(GuardedSocketTest, OtherSocketsAreNotLookedAt) {
  Say(Greeting() + kEndless + kEndless + kEndless);
  size_t all = 0;
  for (ssize_t received; (received = Receive()) > 0;) all += static_cast<size_t>(received);
  EXPECT_EQ(all, (Greeting() + kEndless + kEndless + kEndless).size());
}

TEST_F(GuardedSocketTest, TheNextSocketOfThisNumberIsNotGuarded) {
  Guard();
  const int number = server_.get();
  server_.Reset();
  closed_.reset();
  ASSERT_EQ(dup2(client_.get(), number), number);
  EXPECT_EQ(close(number), 0);
  EXPECT_FALSE(closed_.has_value());
}

TEST_F(GuardedSocketTest, ClosingWhatIsNotOpenIsAnError) {
  const int number = server_.get();
  server_.Reset();
  EXPECT_EQ(close(number), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(close(-1), -1);
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace uopd::net
