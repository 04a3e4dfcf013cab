// SPDX-License-Identifier: MIT
// Clients that say nothing, or half of it: they hold up nobody else.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "tests/e2e/client.h"

namespace uopd::e2e {
namespace {

using Clock = std::chrono::steady_clock;

// Connections to one address that stay open.
class OpenConnections {
 public:
  explicit OpenConnections(const std::string& address)
      : port_(std::stoi(address.substr(address.rfind(':') + 1))) {}
  ~OpenConnections() {
    for (int fd : fds_) close(fd);
  }
  void Add(int n, const std::string& says) {
    for (int i = 0; i < n; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(static_cast<uint16_t>(port_));
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
      if (!says.empty()) {
        EXPECT_GT(send(fd, says.data(), says.size(), MSG_NOSIGNAL), 0);
      }
      fds_.push_back(fd);
    }
  }

 private:
  int port_;
  std::vector<int> fds_;
};

TEST(SlowClientsTest, SilentAndHalfSentConnectionsHoldUpNeitherPort) {
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path());
  ASSERT_TRUE(daemon.running());
  OpenConnections http(daemon.http()), rpc(daemon.listen());
  http.Add(250, "");
  http.Add(250, "GET /metrics HTTP/1.1\r\nHo");
  rpc.Add(500, "");
  rpc.Add(100, "PRI * HTTP/2.0\r\n");
  int64_t slowest_us = 0;
  for (int i = 0; i < 20; ++i) {
    const auto begin = Clock::now();
    EXPECT_NE(daemon.Http("/metrics").find("uopd_sessions"), std::string::npos);
    slowest_us = std::max<int64_t>(
        slowest_us,
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count());
  }
  RecordProperty("slowest_metrics_us", std::to_string(slowest_us));
  std::printf("slowest /metrics beside 500 slow clients: %ld us\n", static_cast<long>(slowest_us));
  ExpectServes(daemon);
}

}  // namespace
}  // namespace uopd::e2e
