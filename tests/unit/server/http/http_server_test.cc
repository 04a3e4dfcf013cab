// SPDX-License-Identifier: MIT
#include "server/http/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/base/telemetry/metrics.h"

namespace uopd::http {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Sends one request to an IPv4 address and returns all bytes of the answer.
std::string Fetch(const std::string& address, const std::string& method, const std::string& path) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
    close(fd);
    return "";
  }
  const std::string request =
      method + " " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
  EXPECT_EQ(send(fd, request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::string out;
  char buffer[4096];
  for (ssize_t n; (n = recv(fd, buffer, sizeof buffer, 0)) > 0;)
    out.append(buffer, static_cast<size_t>(n));
  close(fd);
  return out;
}

std::unique_ptr<HttpServer> StartServer(ReadinessFn readiness = [] { return Readiness{}; }) {
  auto server = HttpServer::Start("127.0.0.1:0", std::move(readiness));
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

TEST(HttpServer, LocalhostAndWildcardStopAtOnce) {
  for (const char* address : {"localhost:0", "0.0.0.0:0"}) {
    auto server = HttpServer::Start(address, [] { return Readiness{}; });
    ASSERT_TRUE(server.ok()) << server.status();
    EXPECT_THAT(Fetch((*server)->address(), "GET", "/healthz"), StartsWith("HTTP/1.1 200 "));
    (*server)->Stop();  // or the test never ends
  }
}

TEST(HttpServer, ReportsTheBoundPort) {
  auto server = StartServer();
  EXPECT_THAT(server->address(), AllOf(StartsWith("127.0.0.1:"), Not(EndsWith(":0"))));
  auto second = HttpServer::Start(server->address(), [] { return Readiness{}; });
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(second.status().ToString(), HasSubstr(server->address()));
}

TEST(HttpServer, RefusesAddressesThatMakeNoSense) {
  for (const char* address :
       {"", "127.0.0.1", ":80", "127.0.0.1:x", "127.0.0.1:70000", "127.0.0.1:-1",
        "127.0.0.1:80,0.0.0.0:81", "example.org:80", "127.0.0.1:80s", "[::1:0", "unix:/tmp/x"}) {
    EXPECT_EQ(HttpServer::Start(address, [] { return Readiness{}; }).status().code(),
              absl::StatusCode::kInvalidArgument)
        << address;
  }
}

TEST(HttpServer, HealthAndReadiness) {
  std::atomic<bool> draining{false}, degraded{false};
  const std::string note = "device CUDA:0 is not ready: no driver\n";
  auto server = StartServer(
      [&] { return Readiness{draining ? "draining" : "", degraded ? note : std::string()}; });
  EXPECT_THAT(Fetch(server->address(), "GET", "/healthz"),
              AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\nok\n")));
  EXPECT_THAT(Fetch(server->address(), "GET", "/readyz"),
              AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\nready\n")));
  degraded = true;
  EXPECT_THAT(Fetch(server->address(), "GET", "/readyz"),
              AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\ndegraded\n" + note)));
  draining = true;
  EXPECT_THAT(Fetch(server->address(), "GET", "/readyz"),
              AllOf(StartsWith("HTTP/1.1 503 "), EndsWith("\r\n\r\ndraining\n" + note)));
  EXPECT_THAT(Fetch(server->address(), "GET", "/healthz"), StartsWith("HTTP/1.1 200 "));
}

TEST(HttpServer, UnknownPathsAndMethods) {
  auto server = StartServer();
  for (const char* path : {"/", "/metricsx", "/metrics/x", "/../etc/passwd", "/healthz/"}) {
    EXPECT_THAT(Fetch(server->address(), "GET", path), StartsWith("HTTP/1.1 404 ")) << path;
  }
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS"}) {
    EXPECT_THAT(Fetch(server->address(), method, "/metrics"),
                AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD")))
        << method;
  }
}

TEST(HttpServer, HeadHasNoBody) {
  auto server = StartServer();
  EXPECT_THAT(
      Fetch(server->address(), "HEAD", "/healthz"),
      AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("Content-Length: 3\r\n"), EndsWith("\r\n\r\n")));
}

TEST(HttpServer, MetricsInPrometheusText) {
  metrics::CacheRequests({"http_test", "hit"}).Increment(3);
  Histogram& time = metrics::KernelDuration({"http\"test"});
  time.Observe(1.5e-6);
  time.Observe(50);
  auto server = StartServer();
  const std::string text = Fetch(server->address(), "GET", "/metrics");
  EXPECT_THAT(text, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(text, HasSubstr("# TYPE uopd_cache_requests_total counter\n"));
  EXPECT_THAT(text, HasSubstr("uopd_cache_requests_total{store=\"http_test\",result=\"hit\"} 3"));
  EXPECT_THAT(text, HasSubstr("uopd_sessions 0"));
  EXPECT_THAT(text, HasSubstr("uopd_kernel_duration_seconds_count{device=\"http\\\"test\"} 2"));
  EXPECT_THAT(
      text,
      HasSubstr("uopd_kernel_duration_seconds_bucket{device=\"http\\\"test\",le=\"+Inf\"} 2"));
  // Buckets are cumulative: 1.5 us is in "2 us" and in every later one.
  EXPECT_THAT(text,
              HasSubstr("uopd_kernel_duration_seconds_bucket{device=\"http\\\"test\",le=\"1\"} 1"));
  EXPECT_THAT(text, HasSubstr("uopd_process_start_time_seconds "));
}

TEST(HttpServer, AnExceptionIsNotShown) {
  auto server = StartServer([]() -> Readiness { throw std::runtime_error("boom"); });
  EXPECT_THAT(Fetch(server->address(), "GET", "/readyz"),
              AllOf(StartsWith("HTTP/1.1 500 "), Not(HasSubstr("boom"))));
  EXPECT_THAT(Fetch(server->address(), "GET", "/healthz?x=1"), StartsWith("HTTP/1.1 200 "));
}

// A connection that has sent this and stays open.
int Open(const std::string& address, const std::string& says) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  EXPECT_EQ(send(fd, says.data(), says.size(), MSG_NOSIGNAL), static_cast<ssize_t>(says.size()));
  return fd;
}

TEST(HttpServer, SilentAndSlowClientsHoldUpNobody) {
  auto server = HttpServer::Start("127.0.0.1:0", [] { return Readiness{}; }, std::chrono::hours(1));
  ASSERT_TRUE(server.ok());
  std::vector<int> slow;
  for (int i = 0; i < 500; ++i) {
    slow.push_back(Open((*server)->address(), i % 2 == 0 ? "" : "GET /metrics HTTP/1.1\r\nHo"));
  }
  EXPECT_THAT(Fetch((*server)->address(), "GET", "/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Fetch((*server)->address(), "GET", "/metrics"), StartsWith("HTTP/1.1 200 "));
  char byte;
  EXPECT_LE(recv(slow.front(), &byte, 1, 0), 0);  // the oldest had to go
  for (int fd : slow) close(fd);
}

TEST(HttpServer, AHeadThatDoesNotComeEndsTheConnection) {
  auto server =
      HttpServer::Start("127.0.0.1:0", [] { return Readiness{}; }, std::chrono::milliseconds(20));
  ASSERT_TRUE(server.ok());
  const int fd = Open((*server)->address(), "GET /healthz HTTP/1.1\r\n");
  char byte;
  EXPECT_LE(recv(fd, &byte, 1, 0), 0);
  close(fd);
}

TEST(HttpServer, RequestsThatAreNoneGetAnError) {
  auto server = StartServer();
  for (const auto& [says, answer] :
       {std::pair(std::string("hello\r\n\r\n"), "HTTP/1.1 400 "),
        std::pair(std::string("GET /metrics\r\n\r\n"), "HTTP/1.1 400 "),
        std::pair(std::string("\r\n\r\n"), "HTTP/1.1 400 "),
        std::pair("GET /" + std::string(kMaxHead, 'x') + " HTTP/1.1\r\n\r\n", "HTTP/1.1 431 ")}) {
    const int fd = Open(server->address(), says);
    char buffer[64] = "";
    EXPECT_GT(recv(fd, buffer, sizeof buffer - 1, 0), 0);
    EXPECT_THAT(std::string(buffer), StartsWith(answer));
    close(fd);
  }
}

TEST(HttpServer, ServesManyAtOnceAndStops) {
  auto server = StartServer();
  const std::string address = server->address();
  std::atomic<int> served{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; t++) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; i++)
        served += Fetch(address, "GET", "/metrics").starts_with("HTTP/1.1 200 ");
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(served, 80);
  server->Stop();
  EXPECT_EQ(Fetch(address, "GET", "/healthz"), "");
}

}  // namespace
}  // namespace uopd::http
