// SPDX-License-Identifier: MIT
// The GET of uopctl, against servers that are none of ours.
#include "client/cli/http_get.h"

#include <gtest/gtest.h>

#include <chrono>

#include "core/base/text.h"
#include "tests/support/fake_http.h"

namespace uopd::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::string Answer(const std::string& body, size_t length) {
  return Cat("HTTP/1.1 200 OK\r\nContent-Length: ", length, "\r\n\r\n", body);
}

absl::StatusOr<std::string> Get(const test::FakeHttp& server, double timeout_s = 10) {
  return HttpGet(server.endpoint().substr(std::string("http://").size()), "/metrics", timeout_s);
}

TEST(HttpGetTest, TakesAWholeAnswer) {
  test::FakeHttp server([](int) { return Answer("a 1\n", 4); });
  const auto page = Get(server);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(*page, "a 1\n");
  EXPECT_TRUE(server.last_request().starts_with("GET /metrics HTTP/1.1\r\n"));
}

TEST(HttpGetTest, APartOfAnAnswerIsNone) {
  for (const std::string& answer :
       {Answer("a 1", 100), std::string("HTTP/1.1 200 OK\r\nContent-Le"), std::string("nonsense\n"),
        std::string("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")}) {
    const test::FakeHttp server([&](int) { return answer; });
    const absl::Status status = Get(server).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << answer << status;
  }
}

TEST(HttpGetTest, TheTimeIsThatOfTheWholeAnswer) {
  const auto begin = Clock::now();
  const test::FakeHttp silent([](int) { return ""; });
  EXPECT_TRUE(absl::IsDeadlineExceeded(Get(silent, 0.2).status()));
  const test::FakeHttp drips([](int) { return Answer(std::string(10'000, 'x'), 10'000); },
                             std::chrono::milliseconds(20));
  const absl::Status late = Get(drips, 0.2).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_NE(late.message().find("127.0.0.1:"), std::string::npos) << late;
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(60));
}

TEST(HttpGetTest, MetricsAreThoseOfADaemon) {
  const auto page = [](const std::string& body) {
    const test::FakeHttp server([&](int) { return Answer(body, body.size()); });
    return GetMetrics(server.endpoint().substr(std::string("http://").size()), 10);
  };
  EXPECT_TRUE(page("# TYPE uopd_sessions gauge\nuopd_sessions 0\n").ok());
  for (const char* other : {"hello world", "\x1f\x8b\x08 packed", "# TYPE go_threads gauge\n"})
    EXPECT_TRUE(absl::IsUnavailable(page(other).status())) << other;
}

TEST(HttpGetTest, APageWithoutEndIsRefused) {
  const test::FakeHttp server(
      [](int) { return Answer(std::string(65 << 20, 'x'), size_t{1} << 40); });
  EXPECT_TRUE(absl::IsResourceExhausted(Get(server).status()));
}

TEST(HttpGetTest, NobodyIsThere) {
  const absl::Status status = HttpGet("127.0.0.1:9", "/metrics", 5).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(status.message().find("127.0.0.1:9"), std::string::npos) << status;
}

// A proxy of the environment is for the world, and not for a daemon.
TEST(HttpGetTest, NoProxyIsAsked) {
  const test::FakeHttp proxy([](int) { return Answer("proxy", 5); });
  const test::FakeHttp server([](int) { return Answer("daemon", 6); });
  setenv("http_proxy", proxy.endpoint().c_str(), 1);
  const auto page = Get(server);
  unsetenv("http_proxy");
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(*page, "daemon");
}

}  // namespace
}  // namespace uopd::cli
