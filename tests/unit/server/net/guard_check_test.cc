// SPDX-License-Identifier: MIT
#include "server/net/guard_check.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

namespace uopd::net {
namespace {

constexpr char kAnswer[] = "settings";

// A server with one connection, on a thread of its own: it reads, answers, and closes when its
// client has closed.
class Server {
 public:
  using Use = ssize_t (*)(int fd, msghdr* message);

  Server(Use receive, Use send) : receive_(receive), send_(send) {}
  ~Server() {
    if (thread_.joinable()) thread_.join();
  }
  void Take(int fd) {
    thread_ = std::thread([this, fd] {
      Do(fd, receive_);
      Do(fd, send_);
      pollfd wait{fd, POLLIN, 0};
      poll(&wait, 1, -1);
      close(fd);
    });
  }

 private:
  static void Do(int fd, Use use) {
    char bytes[100] = "x";
    iovec part{bytes, sizeof bytes};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    use(fd, &message);
  }

  const Use receive_, send_;
  std::thread thread_;
};

ssize_t Receive(int fd, msghdr* message) { return recvmsg(fd, message, 0); }
ssize_t Send(int fd, msghdr* message) { return sendmsg(fd, message, 0); }
ssize_t OtherReceive(int fd, msghdr* message) {
  return read(fd, message->msg_iov->iov_base, message->msg_iov->iov_len);
}
ssize_t OtherSend(int fd, msghdr*) { return write(fd, kAnswer, sizeof kAnswer); }

std::string Check(Server::Use receive, Server::Use send) {
  Server server(receive, send);
  return CheckGuard([&](int fd) { server.Take(fd); }).ToString();
}

TEST(GuardCheck, KnowsWhoGoesAroundTheGuard) {
  EXPECT_EQ(Check(Receive, Send), "OK");
  EXPECT_NE(Check(OtherReceive, Send).find("did not see what was received"), std::string::npos);
  EXPECT_NE(Check(Receive, OtherSend).find("did not see what was sent"), std::string::npos);
}

}  // namespace
}  // namespace uopd::net
