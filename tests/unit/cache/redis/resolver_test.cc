// SPDX-License-Identifier: MIT
#include "cache/redis/resolver.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "cache/redis/redis_pool.h"
#include "tests/support/eventually.h"
#include "tests/support/redis/redis_process.h"

namespace uopd::cache {
namespace {

using std::chrono::milliseconds;
using test::Eventually;
using SteadyClock = std::chrono::steady_clock;

Deadline Within(int ms) { return SteadyClock::now() + milliseconds(ms); }

SocketAddresses Loopback(uint8_t last) {
  sockaddr_in v4 = {};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(0x7F000000u | last);
  SocketAddress out;
  std::memcpy(&out.bytes, &v4, sizeof v4);
  out.size = sizeof v4;
  return {out};
}

std::string TextOf(const SocketAddresses& addresses) {
  char out[INET6_ADDRSTRLEN] = "";
  const SocketAddress& one = addresses.front();
  const bool v6 = one.bytes.ss_family == AF_INET6;
  const char* at = reinterpret_cast<const char*>(&one.bytes) +
                   (v6 ? offsetof(sockaddr_in6, sin6_addr) : offsetof(sockaddr_in, sin_addr));
  inet_ntop(one.bytes.ss_family, at, out, sizeof out);
  return out;
}

// A name server that answers as told, and may hang. Outlives the threads that ask it.
struct NameServer {
  std::mutex mu;
  std::condition_variable changed;
  bool hangs = false;
  absl::StatusOr<SocketAddresses> answer = Loopback(1);
  std::atomic<int> asked{0};

  void Set(bool hang, absl::StatusOr<SocketAddresses> now) {
    const std::lock_guard lock(mu);
    hangs = hang;
    answer = std::move(now);
    changed.notify_all();
  }
};

class ResolverTest : public testing::Test {
 protected:
  ~ResolverTest() override { server_->Set(false, Loopback(1)); }  // frees threads that still ask
  Resolver::Options Asking(milliseconds fresh) const {
    return {.look_up = [server = server_](const std::string&) -> absl::StatusOr<SocketAddresses> {
              ++server->asked;
              std::unique_lock lock(server->mu);
              server->changed.wait(lock, [&] { return !server->hangs; });
              return server->answer;
            },
            .fresh = fresh};
  }
  const std::shared_ptr<NameServer> server_ = std::make_shared<NameServer>();
};

TEST_F(ResolverTest, DigitsAreTheirOwnAnswer) {
  server_->Set(true, Loopback(1));
  Resolver resolver(Asking(milliseconds(0)));
  for (const char* host : {"127.0.0.9", "::1", "2001:db8::7"}) {
    const auto found = resolver.Resolve(host, Within(0));
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(TextOf(*found), host);
  }
  EXPECT_EQ(server_->asked, 0);
}

TEST_F(ResolverTest, AnOldAnswerIsGivenAtOnceAndAskedForAgain) {
  Resolver resolver(Asking(milliseconds(1)));
  EXPECT_EQ(TextOf(resolver.Resolve("cache", Within(5000)).value()), "127.0.0.1");
  server_->Set(false, Loopback(2));
  EXPECT_TRUE(Eventually(
      [&] { return TextOf(resolver.Resolve("cache", Within(0)).value()) == "127.0.0.2"; }));
}

TEST_F(ResolverTest, AFreshAnswerIsNotAskedForAgain) {
  Resolver resolver(Asking(std::chrono::hours(1)));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(resolver.Resolve("cache", Within(5000)).ok());
  EXPECT_EQ(server_->asked, 1);
}

TEST_F(ResolverTest, TheLastGoodAnswerStays) {
  Resolver resolver(Asking(milliseconds(1)));
  ASSERT_TRUE(resolver.Resolve("cache", Within(5000)).ok());
  server_->Set(false, absl::UnavailableError("no such name"));
  ASSERT_TRUE(Eventually([&] {
    EXPECT_EQ(TextOf(resolver.Resolve("cache", Within(0)).value()), "127.0.0.1");
    return server_->asked >= 3;  // two searches have failed at least
  }));
  server_->Set(true, Loopback(2));
  const auto begin = SteadyClock::now();
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(TextOf(resolver.Resolve("cache", Within(60'000)).value()), "127.0.0.1");
  EXPECT_LT(SteadyClock::now() - begin, std::chrono::seconds(60))
      << "waits for a name server that hangs";
}

TEST_F(ResolverTest, AnUnknownNameIsAnErrorUntilItIsKnown) {
  server_->Set(false, absl::UnavailableError("no such name"));
  Resolver resolver(Asking(milliseconds(1)));
  EXPECT_TRUE(absl::IsUnavailable(resolver.Resolve("cache", Within(5000)).status()));
  server_->Set(false, Loopback(3));
  EXPECT_TRUE(resolver.Resolve("cache", Within(5000)).ok());
}

TEST_F(ResolverTest, NobodyWaitsBeyondTheDeadlineAndOneThreadAsks) {
  server_->Set(true, Loopback(4));
  auto resolver = std::make_unique<Resolver>(Asking(milliseconds(1)));
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      const auto begin = SteadyClock::now();
      EXPECT_TRUE(absl::IsDeadlineExceeded(resolver->Resolve("cache", Within(50)).status()));
      const auto took = SteadyClock::now() - begin;
      EXPECT_GE(took, milliseconds(50));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server_->asked, 1);
  // The search goes on, and its answer is found by a call that has no time itself.
  server_->Set(false, Loopback(4));
  EXPECT_TRUE(Eventually([&] { return resolver->Resolve("cache", Within(0)).ok(); }));
  server_->Set(true, Loopback(4));
  std::this_thread::sleep_for(milliseconds(5));
  EXPECT_TRUE(resolver->Resolve("cache", Within(0)).ok());  // a thread asks now
  resolver.reset();                                         // and does not keep anybody
}

TEST_F(ResolverTest, TheSystemKnowsTheNameOfThisMachine) {
  Resolver resolver;
  const auto found = resolver.Resolve("localhost", Within(10'000));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(TextOf(*found) == "127.0.0.1" || TextOf(*found) == "::1") << TextOf(*found);
  EXPECT_FALSE(resolver.Resolve("no-such-host.invalid", Within(10'000)).ok());
}

// A pool whose name server hangs costs its user the budget; one that had an answer goes on.
TEST_F(ResolverTest, APoolWaitsForNoName) {
  const auto redis = test::RedisProcess::Start().value();
  RedisPoolOptions options{.url = {.servers = {{"cache.example", redis->port()}}}};
  options.resolver = std::make_shared<Resolver>(Asking(milliseconds(1)));
  RedisPool pool(options);
  server_->Set(true, Loopback(1));
  EXPECT_TRUE(absl::IsDeadlineExceeded(pool.Take(Within(20)).status()));
  server_->Set(false, Loopback(1));
  ASSERT_TRUE(Eventually([&] { return pool.Take(Within(1000)).ok(); }));
  server_->Set(true, Loopback(2));
  EXPECT_TRUE(pool.Take(Within(5000)).ok());
}

}  // namespace
}  // namespace uopd::cache
