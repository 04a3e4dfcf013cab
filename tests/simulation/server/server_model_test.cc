// SPDX-License-Identifier: MIT
// The model of the server: what the tests of the real one ask for, and random commands beside a
// real Redis.
#include "tests/simulation/server/server_model.h"

#include <gtest/gtest.h>

#include <array>

#include "cache/redis/redis_shared_server.h"
#include "core/base/text.h"
#include "tests/simulation/event_queue.h"
#include "tests/support/redis/redis_process.h"

namespace uopd::sim {
namespace {

using cache::Announcement;
constexpr int64_t kNow = 1'800'000'000 * kSecond;

Announcement Of(const Digest& address) { return {address, "kernel", HashBytes("env"), {}}; }

class ServerModelTest : public ::testing::Test {
 protected:
  const Digest one_ = HashBytes("one"), two_ = HashBytes("two");
  ServerModel server_{{}, kNow, 1};
};

TEST_F(ServerModelTest, ALeaseThatIsNotRenewedEnds) {
  const auto lease = server_.TryLease(one_, "a", 20'000, kNow);
  ASSERT_TRUE(lease.granted());
  EXPECT_TRUE(server_.IsHeld(one_, kNow + 19'999));
  EXPECT_EQ(server_.TryLease(one_, "b", kSecond, kNow + 19'999).holder, "a");
  EXPECT_FALSE(server_.IsHeld(one_, kNow + 20'000));
  EXPECT_FALSE(server_.Renew(one_, lease.token, "a", kSecond, kNow + 20'000));
  EXPECT_TRUE(server_.IsNewest(one_, lease.token)) << "nobody took it over";
  const auto next = server_.TryLease(one_, "b", kSecond, kNow + 20'000);
  EXPECT_GT(next.token, lease.token);
  EXPECT_FALSE(server_.IsNewest(one_, lease.token));
}

TEST_F(ServerModelTest, AServerThatLostItsKeysIsYoungAndGrantsNoOldToken) {
  const auto lease = server_.TryLease(one_, "a", 60 * kSecond, kNow + 5);
  EXPECT_EQ(server_.Age(1, kNow + 30).age_us, 30);
  server_.Empty(kNow + 100);
  EXPECT_EQ(server_.Age(1, kNow + 130).age_us, 30);
  EXPECT_TRUE(server_.Renew(one_, lease.token, "a", 60 * kSecond, kNow + 140))
      << "the owner makes it again";
  EXPECT_EQ(server_.TryLease(one_, "b", kSecond, kNow + 150).holder, "a");
  server_.Empty(kNow + 200);
  EXPECT_GT(server_.TryLease(one_, "b", kSecond, kNow + 210).token, lease.token);
  EXPECT_FALSE(server_.Renew(one_, lease.token, "a", kSecond, kNow + 220)) << "b was faster";
}

TEST_F(ServerModelTest, DaemonsAreCountedByTheMinute) {
  constexpr int64_t kBegin = kNow / kMinute * kMinute;
  const auto ask = [&](uint64_t daemon, int64_t second) {
    return server_.Age(daemon, kBegin + second * kSecond).daemons;
  };
  for (int i = 1; i <= 5; ++i) EXPECT_EQ(ask(static_cast<uint64_t>(i), 10), i);
  EXPECT_EQ(ask(3, 59), 5);
  EXPECT_EQ(ask(3, 61), 5) << "of the minute before";
  EXPECT_EQ(ask(4, 119), 5);
  EXPECT_EQ(ask(4, 121), 2);
  EXPECT_EQ(ask(4, 400), 1);
  server_.Empty(kBegin + 410 * kSecond);
  EXPECT_EQ(ask(7, 411), 1);
}

TEST_F(ServerModelTest, AnnouncementsAreReadOnceAndOldOnesAreDropped) {
  ServerModel small({.announcements = 3}, kNow, 1);
  AnnouncementLog& log = small.puts();
  uint64_t cursor = log.end();
  EXPECT_TRUE(log.Read(cursor, log.end(), 9).empty());
  log.Add(Of(one_));
  EXPECT_EQ(log.Read(cursor, log.end(), 9), std::vector{Of(one_)});
  EXPECT_TRUE(log.Read(cursor, log.end(), 9).empty());
  for (int i = 0; i < 5; ++i) log.Add(Of(two_));
  EXPECT_EQ(log.Read(cursor, log.end(), 2).size(), 2u);
  EXPECT_EQ(log.Read(cursor, log.end(), 9).size(), 1u) << "two were dropped";
  small.Empty(kNow);
  log.Add(Of(one_));
  EXPECT_EQ(log.Read(cursor, log.end(), 9), std::vector{Of(one_)}) << "positions go on";
}

TEST_F(ServerModelTest, RecordsThatWereNotUsedAreEvicted) {
  ServerModel small({.max_bytes = 1000}, kNow, 1);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(small.Put(HashBytes(Cat(i)), "r", 1, 100, kNow + i));
    ASSERT_NE(small.Get(HashBytes("0"), kNow + i), nullptr) << "used again and again";
    ASSERT_LE(small.bytes(), 1000);
  }
  EXPECT_EQ(small.evicted(), 90);
  EXPECT_TRUE(small.Has(HashBytes("99")));
}

// Leases long enough that none ends: then no answer depends on the time.
TEST_F(ServerModelTest, ItAnswersAsRedisDoes) {
  auto redis = test::RedisProcess::Start();
  ASSERT_TRUE(redis.ok()) << redis.status();
  cache::RedisSharedServer real(
      {.pool = {.url = *cache::ParseRedisUrl("redis+unix://" + (*redis)->socket())}});
  const auto in = [] { return cache::SteadyNow() + std::chrono::seconds(5); };
  constexpr int64_t kLong = 600 * kSecond;
  Random random(11);
  std::array<std::vector<std::pair<int64_t, int64_t>>, 4> tokens;  // by key: of the model, of Redis
  for (int i = 0; i < 3000; ++i) {
    const size_t k = random.Below(tokens.size());
    const Digest address = HashBytes(Cat("key ", k));
    const int64_t now = kNow + i;
    // Now and then a token that was never granted.
    std::pair<int64_t, int64_t> token{7, 7};
    if (!tokens[k].empty() && random.Below(8) != 0)
      token =
          tokens[k][random.Below(2) == 0 ? tokens[k].size() - 1 : random.Below(tokens[k].size())];
    switch (random.Below(8)) {
      case 0:
      case 1: {
        const auto model = server_.TryLease(address, "owner", kLong, now);
        const auto answer = real.TryLease(address, "owner", kLong, in());
        ASSERT_TRUE(answer.ok()) << answer.status();
        ASSERT_EQ(model.outcome, answer->outcome) << i;
        ASSERT_EQ(model.holder, answer->holder) << i;
        if (!model.granted()) break;
        if (!tokens[k].empty()) {
          ASSERT_GT(model.token, tokens[k].back().first);
          ASSERT_GT(answer->token, tokens[k].back().second);
        }
        tokens[k].emplace_back(model.token, answer->token);
        break;
      }
      case 2:
        ASSERT_EQ(server_.Renew(address, token.first, "owner", kLong, now),
                  real.Renew(address, token.second, "owner", kLong, in()).ok())
            << i;
        break;
      case 3:
        ASSERT_EQ(server_.Release(address, token.first, now),
                  real.Release(address, token.second, in()).ok())
            << i;
        break;
      case 4:
        ASSERT_EQ(server_.IsNewest(address, token.first),
                  real.CheckNewest(address, token.second, in()).ok())
            << i;
        break;
      case 5:
        ASSERT_EQ(server_.IsHeld(address, now), *real.IsHeld(address, in())) << i;
        break;
      case 6: {
        const auto fence = static_cast<int64_t>(random.Below(100));
        const std::string record = Cat("record ", i);
        ASSERT_EQ(server_.Put(address, record, fence, 1, now),
                  *real.Put(Of(address), record, fence, std::nullopt, in()))
            << i;
        break;
      }
      default: {
        const std::string* model = server_.Get(address, now);
        const auto answer = *real.Get(address, in());
        ASSERT_EQ(model == nullptr, !answer.has_value()) << i;
        if (model != nullptr) {
          ASSERT_EQ(*model, *answer) << i;
        }
        ASSERT_EQ(server_.Has(address), *real.Has(address, in()));
      }
    }
  }
}

}  // namespace
}  // namespace uopd::sim
