// SPDX-License-Identifier: MIT
#include "server/http/connections.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <vector>

#include "server/http/http_server.h"

namespace uopd::http {
namespace {

// Clients that ask and do not read cost a bounded amount of memory: the oldest have to go.
TEST(Connections, AnswersThatNobodyReadsAreBounded) {
  constexpr size_t kAnswer = kMaxHeldBytes / 4;
  const UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  Connections connections(epoll.get(), std::chrono::hours(1),
                          [](std::string_view) { return std::string(kAnswer, 'x'); });
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 10; ++i) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    clients.emplace_back(ends[0]);
    const std::string request = "GET / HTTP/1.1\r\n\r\n";
    ASSERT_EQ(send(ends[0], request.data(), request.size(), 0),
              static_cast<ssize_t>(request.size()));
    connections.Add(UniqueFd(ends[1]));
    ASSERT_TRUE(connections.OnEvent(ends[1]));
    EXPECT_EQ(connections.size(), static_cast<size_t>(std::min(i + 1, 4)));
  }
  // The first clients find the end of their connection behind what was sent at once.
  std::string bytes(kAnswer, ' ');
  ssize_t n = 0;
  size_t got = 0;
  while ((n = recv(clients.front().get(), bytes.data(), bytes.size(), 0)) > 0) {
    got += static_cast<size_t>(n);
  }
  EXPECT_EQ(n, 0);
  EXPECT_LT(got, kAnswer);
  // An idle connection holds no answer and is not ended for the sake of others.
  int idle[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, idle), 0);
  clients.emplace_back(idle[0]);
  connections.Add(UniqueFd(idle[1]));
  EXPECT_EQ(connections.size(), 5u);
}

// The age of a connection is not that of its answer: a client can open all and ask with the first
// one last.
TEST(Connections, AnswersAreBoundedInWhicheverOrderTheyAreAskedFor) {
  constexpr size_t kAnswer = kMaxHeldBytes / 4;
  const UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  Connections connections(epoll.get(), std::chrono::hours(1),
                          [](std::string_view) { return std::string(kAnswer, 'x'); });
  std::vector<UniqueFd> clients;
  std::vector<int> servers;
  for (int i = 0; i < 10; ++i) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    clients.emplace_back(ends[0]);
    servers.push_back(ends[1]);
    connections.Add(UniqueFd(ends[1]));
  }
  const std::string request = "GET / HTTP/1.1\r\n\r\n";
  for (size_t i = clients.size(); i-- > 0;) {
    ASSERT_EQ(send(clients[i].get(), request.data(), request.size(), 0),
              static_cast<ssize_t>(request.size()));
    ASSERT_TRUE(connections.OnEvent(servers[i]));
    // Those that have not asked yet, and at most four with an answer.
    EXPECT_EQ(connections.size(), i + std::min<size_t>(clients.size() - i, 4));
  }
  // The last one to ask is there.
  std::string bytes(kAnswer, ' ');
  EXPECT_GT(recv(clients.front().get(), bytes.data(), bytes.size(), 0), 0);
}

}  // namespace
}  // namespace uopd::http
