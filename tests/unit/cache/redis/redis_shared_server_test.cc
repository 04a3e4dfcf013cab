// SPDX-License-Identifier: MIT
// Records, leases and announcements on a real Redis.
#include "cache/redis/redis_shared_server.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <thread>

#include "core/base/text.h"
#include "tests/support/eventually.h"
#include "tests/support/redis/redis_process.h"

namespace uopd::cache {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Long enough for a busy machine.
Deadline In(int ms = 120'000) { return steady_clock::now() + milliseconds(ms); }
constexpr int64_t kLeaseUs = 1'000'000;
constexpr char kBorn[] = "uopd:1:born";

// The program of the server: Redis, and Valkey where UOPD_VALKEY names it (tests/run does).
class RedisSharedServerTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    test::RedisOptions options;
    if (GetParam() == std::string_view("valkey")) {
      const char* program = std::getenv("UOPD_VALKEY");
      if (program == nullptr) GTEST_SKIP() << "UOPD_VALKEY names no server of Valkey";
      options.program = program;
    }
    auto started = test::RedisProcess::Start(options);
    ASSERT_TRUE(started.ok()) << started.status();
    redis_ = *std::move(started);
  }
  RedisSharedOptions Options() const {
    return {.pool = {.url = *ParseRedisUrl("redis+unix://" + redis_->socket())}};
  }
  // What redis-cli would show.
  RespValue Raw(const RedisConnection::Command& command) {
    RedisPool pool({.url = *ParseRedisUrl("redis+unix://" + redis_->socket())});
    auto connection = pool.Take(In());
    EXPECT_TRUE(connection.ok()) << connection.status();
    auto reply = (*connection)->Run(command, In());
    EXPECT_TRUE(reply.ok()) << reply.status();
    return *std::move(reply);
  }
  static Announcement Of(const Digest& address) {
    return {address, "kernel", HashBytes("env"), {}};
  }

  const Digest one_ = HashBytes("one"), two_ = HashBytes("two");
  std::unique_ptr<test::RedisProcess> redis_;
};

TEST_P(RedisSharedServerTest, TheGreaterFenceStays) {
  RedisSharedServer server(Options());
  EXPECT_EQ(*server.Get(one_, In()), std::nullopt);
  const std::string bytes("a\0b", 3);
  EXPECT_TRUE(*server.Put(Of(one_), bytes, 5, Stream::kPuts, In()));
  EXPECT_EQ(**server.Get(one_, In()), bytes);
  EXPECT_FALSE(*server.Put(Of(one_), "older", 4, Stream::kPuts, In()));
  EXPECT_EQ(**server.Get(one_, In()), bytes);
  EXPECT_TRUE(*server.Put(Of(one_), "same", 5, Stream::kPuts, In()));
  EXPECT_TRUE(*server.Put(Of(one_), "newer", 1'800'000'000'000'000, Stream::kPuts, In()));
  EXPECT_FALSE(*server.Put(Of(one_), "one less", 1'799'999'999'999'999, Stream::kPuts, In()));
  EXPECT_EQ(**server.Get(one_, In()), "newer");
  EXPECT_EQ(*server.Get(two_, In()), std::nullopt);
}

TEST_P(RedisSharedServerTest, OneOwnerAtATime) {
  RedisSharedServer a(Options()), b(Options());
  const auto lease = a.TryLease(one_, "a", kLeaseUs, In());
  ASSERT_TRUE(lease.ok()) << lease.status();
  ASSERT_TRUE(lease->granted());
  EXPECT_GT(lease->token, int64_t{1'700'000'000} * kLeaseUs);
  const auto busy = b.TryLease(one_, "b", kLeaseUs, In());
  EXPECT_EQ(busy->outcome, LeaseOutcome::kBusy);
  EXPECT_EQ(busy->holder, "a");
  EXPECT_TRUE(*b.IsHeld(one_, In()));
  EXPECT_FALSE(*b.IsHeld(two_, In()));
  EXPECT_TRUE(absl::IsAborted(b.Renew(one_, lease->token + 1, "b", kLeaseUs, In())));
  EXPECT_TRUE(a.Renew(one_, lease->token, "a", kLeaseUs, In()).ok());
  EXPECT_TRUE(a.CheckNewest(one_, lease->token, In()).ok());
  EXPECT_TRUE(a.Release(one_, lease->token, In()).ok());
  EXPECT_TRUE(a.CheckNewest(one_, lease->token, In()).ok()) << "the token stays the newest";
  const auto next = b.TryLease(one_, "b", kLeaseUs, In());
  ASSERT_TRUE(next->granted());
  EXPECT_GT(next->token, lease->token);
  EXPECT_TRUE(absl::IsAborted(a.CheckNewest(one_, lease->token, In())));
  EXPECT_TRUE(absl::IsAborted(a.Renew(one_, lease->token, "a", kLeaseUs, In())));
  EXPECT_TRUE(absl::IsAborted(a.Release(one_, lease->token, In())));
  EXPECT_TRUE(*a.IsHeld(one_, In())) << "the lease of b";
}

TEST_P(RedisSharedServerTest, ALeaseThatIsNotRenewedEnds) {
  RedisSharedServer server(Options());
  const auto lease = server.TryLease(one_, "a", 20'000, In());
  ASSERT_TRUE(lease->granted());
  const Deadline deadline = In();
  while (*server.IsHeld(one_, In()) && steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(absl::IsAborted(server.Renew(one_, lease->token, "a", kLeaseUs, In())));
  EXPECT_TRUE(server.CheckNewest(one_, lease->token, In()).ok()) << "nobody took it over";
  EXPECT_TRUE(server.TryLease(one_, "b", kLeaseUs, In())->granted());
}

// Somebody else can write to the server. What he wrote must not block a key for good.
TEST_P(RedisSharedServerTest, WhatCannotBeTrueBlocksNobody) {
  RedisSharedServer server(Options());
  const std::string address = "uopd:1:{" + one_.Hex() + "}:";
  const std::string fence = address + "fence", lease = address + "lease", row = address + "row";
  const int64_t now = WallClockUs();
  for (const char* poison : {"9223372036854775800", "1e300", "inf", "nan", "-5", "words"}) {
    SCOPED_TRACE(poison);
    Raw({"SET", fence, poison});
    const auto granted = server.TryLease(one_, "a", kLeaseUs, In());
    ASSERT_TRUE(granted.ok()) << granted.status();
    ASSERT_TRUE(granted->granted());
    EXPECT_GE(granted->token, now);
    EXPECT_LT(granted->token, now + 600'000'000);
    Raw({"SET", fence, poison});
    EXPECT_FALSE(absl::IsAborted(server.CheckNewest(one_, granted->token, In())));
    Raw({"SET", fence, Cat(granted->token)});
    Raw({"HSET", row, "fence", poison, "record", "poisoned"});
    EXPECT_TRUE(*server.Put(Of(one_), "value", granted->token, Stream::kPuts, In()));
    EXPECT_EQ(**server.Get(one_, In()), "value");
    EXPECT_FALSE(*server.Put(Of(one_), "older", granted->token - 1, Stream::kPuts, In()));
    ASSERT_TRUE(server.Release(one_, granted->token, In()).ok());
  }
  for (const char* ttl : {"", "3700000", "9000000000000"}) {
    SCOPED_TRACE(ttl);
    Raw({"HSET", lease, "owner", "ghost", "token", "17"});
    if (*ttl != 0) Raw({"PEXPIRE", lease, ttl});
    EXPECT_FALSE(*server.IsHeld(one_, In()));
    const auto granted = server.TryLease(one_, "a", kLeaseUs, In());
    ASSERT_TRUE(granted->granted()) << "a lease that does not end";
    EXPECT_TRUE(*server.IsHeld(one_, In()));
    ASSERT_TRUE(server.Release(one_, granted->token, In()).ok());
  }
}

TEST_P(RedisSharedServerTest, AServerThatLostItsKeysIsYoung) {
  RedisSharedServer server(Options());
  const absl::StatusOr<KeysAge> first = server.AskKeysAge(In());
  ASSERT_TRUE(first.ok()) << first.status();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  const auto begin = steady_clock::now();
  const absl::StatusOr<KeysAge> later = server.AskKeysAge(In());
  EXPECT_GE(later->age_us, 30'000);
  EXPECT_EQ(later->born_us, first->born_us);
  ASSERT_TRUE(redis_->Restart().ok());
  absl::StatusOr<KeysAge> age = server.AskKeysAge(In());
  if (!age.ok()) age = server.AskKeysAge(In());  // its connection ended
  ASSERT_TRUE(age.ok()) << age.status();
  EXPECT_LE(std::chrono::microseconds(age->age_us), steady_clock::now() - begin);
  EXPECT_GT(age->born_us, first->born_us);
}

// The minute may change meanwhile: then each count is that of the minute before.
TEST_P(RedisSharedServerTest, DaemonsAreCounted) {
  std::vector<std::unique_ptr<RedisSharedServer>> daemons;
  for (int i = 1; i <= 30; ++i) {
    daemons.push_back(std::make_unique<RedisSharedServer>(Options()));
    for (const auto& one : daemons) {
      const absl::StatusOr<KeysAge> age = one->AskKeysAge(In());
      ASSERT_TRUE(age.ok()) << age.status();
      if (&one != &daemons.back()) continue;
      EXPECT_NEAR(static_cast<double>(age->daemons), i, 1);
    }
  }
  const std::vector<std::string> counts = {Cat("uopd:1:{", kBorn, "}:daemons:0"),
                                           Cat("uopd:1:{", kBorn, "}:daemons:1")};
  int there = 0;
  for (const std::string& key : counts) {
    const int64_t left_s = Raw({"TTL", key}).integer;
    EXPECT_LE(left_s, 120);
    EXPECT_NE(left_s, -1) << "it never ends";
    there += left_s > 0 ? 1 : 0;
  }
  EXPECT_GE(there, 1);
  // Without them, or with something else in their place, the age is told all the same.
  for (const std::string& key : counts) Raw({"DEL", key});
  EXPECT_EQ(daemons[0]->AskKeysAge(In())->daemons, 1);
  for (const std::string& key : counts) Raw({"SET", key, "foreign"});
  EXPECT_EQ(daemons[0]->AskKeysAge(In())->daemons, 0);
  for (const std::string& key : counts) Raw({"DEL", key}), Raw({"LPUSH", key, "1"});
  EXPECT_EQ(daemons[0]->AskKeysAge(In())->daemons, 0);
}

// A deadline that is over: the question does not wait at the server, but is answered.
TEST_P(RedisSharedServerTest, AListenerNeedNotWait) {
  RedisSharedServer server(Options());
  std::string cursor;
  const auto ask = [&] {
    const auto heard = server.Listen(Stream::kPuts, cursor, steady_clock::now());
    EXPECT_TRUE(heard.ok()) << heard.status();
    return heard.ok() ? heard->size() : 0;
  };
  EXPECT_EQ(ask(), 0u);
  ASSERT_TRUE(*server.Put(Of(one_), "r", 1, Stream::kPuts, In()));
  ASSERT_TRUE(*server.Put(Of(two_), "r", 1, Stream::kPuts, In()));
  EXPECT_EQ(ask(), 2u);
  EXPECT_EQ(ask(), 0u);
}

// Whatever somebody else wrote in its place, the time is made again, and then it counts.
TEST_P(RedisSharedServerTest, AForeignBirthMakesTheKeysYoung) {
  RedisSharedServer server(Options());
  const std::vector<RedisConnection::Command> foreign = {{"SET", kBorn, "the day before"},
                                                         {"SET", kBorn, ""},
                                                         {"SET", kBorn, "-5"},
                                                         {"SET", kBorn, "nan"},
                                                         {"SET", kBorn, "1e300"},
                                                         {"LPUSH", kBorn, "1"}};
  for (const auto& command : foreign) {
    Raw({"DEL", kBorn});
    const auto begin = steady_clock::now();
    Raw(command);
    const absl::StatusOr<KeysAge> age = server.AskKeysAge(In());
    ASSERT_TRUE(age.ok()) << age.status();
    EXPECT_LE(milliseconds(age->age_us / 1000), steady_clock::now() - begin) << command.back();
    const absl::StatusOr<KeysAge> again = server.AskKeysAge(In());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->born_us, age->born_us) << command.back();
    EXPECT_GT(again->born_us, 1'000'000'000'000'000) << command.back();
  }
}

TEST_P(RedisSharedServerTest, AServerThatLostItsKeysGrantsNoOldToken) {
  RedisSharedServer server(Options());
  const int64_t before = server.TryLease(one_, "a", kLeaseUs, In())->token;
  ASSERT_TRUE(redis_->Restart().ok());
  absl::StatusOr<LeaseResult> after = server.TryLease(one_, "b", kLeaseUs, In());
  EXPECT_FALSE(after.ok()) << "its connection ended";
  after = server.TryLease(one_, "b", kLeaseUs, In());
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_GT(after->token, before);
}

TEST_P(RedisSharedServerTest, TheOwnerMakesItsLeaseAgainOnAServerThatLostIt) {
  RedisSharedServer server(Options());
  const auto lease = server.TryLease(one_, "a", 60 * kLeaseUs, In());
  ASSERT_TRUE(lease->granted());
  Raw({"FLUSHALL"});
  EXPECT_TRUE(server.Renew(one_, lease->token, "a", 60 * kLeaseUs, In()).ok());
  const auto busy = server.TryLease(one_, "b", kLeaseUs, In());
  EXPECT_EQ(busy->outcome, LeaseOutcome::kBusy);
  EXPECT_EQ(busy->holder, "a");
  Raw({"FLUSHALL"});
  ASSERT_TRUE(server.TryLease(one_, "b", kLeaseUs, In())->granted());
  EXPECT_TRUE(absl::IsAborted(server.Renew(one_, lease->token, "a", kLeaseUs, In())))
      << "b was faster";
}

TEST_P(RedisSharedServerTest, ManyThreadsGetOneLeaseEach) {
  RedisSharedServer server(Options());
  std::vector<std::thread> threads;
  std::array<int, 20> granted{};
  std::array<std::set<int64_t>, 8> tokens;
  for (size_t t = 0; t < tokens.size(); ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < granted.size(); ++i) {
        const auto lease =
            server.TryLease(HashBytes(Cat("key", i)), Cat("owner", t), 60 * kLeaseUs, In());
        if (lease.ok() && lease->granted()) tokens[t].insert(lease->token);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  size_t total = 0;
  for (const auto& some : tokens) total += some.size();
  EXPECT_EQ(total, granted.size());
}

TEST_P(RedisSharedServerTest, PutsAreAnnounced) {
  RedisSharedServer server(Options()), listener(Options());
  std::string cursor;
  EXPECT_TRUE(listener.Listen(Stream::kPuts, cursor, In(60))->empty());
  EXPECT_TRUE(*server.Put(Of(one_), "r", 1, Stream::kPuts, In()));
  EXPECT_EQ(*listener.Listen(Stream::kPuts, cursor, In()), std::vector<Announcement>{Of(one_)});
  EXPECT_FALSE(*server.Put(Of(one_), "older", 0, Stream::kPuts, In()));
  EXPECT_FALSE(*server.Has(two_, In()));
  const std::array<Digest, 2> both = {one_, two_};
  EXPECT_FALSE(*server.HasAll(both, In()));
  EXPECT_TRUE(*server.Put(Of(two_), "r", 0, std::nullopt, In())) << "nobody hears of it";
  EXPECT_TRUE(*server.Has(two_, In()));
  EXPECT_TRUE(*server.HasAll(both, In()));
  EXPECT_TRUE(*server.HasAll({}, In()));
  EXPECT_TRUE(*server.Put(Of(two_), "r", 1, Stream::kPuts, In()));
  EXPECT_EQ(*listener.Listen(Stream::kPuts, cursor, In()), std::vector<Announcement>{Of(two_)});
  std::thread later([&] { EXPECT_TRUE(*server.Put(Of(one_), "r", 2, Stream::kPuts, In())); });
  EXPECT_EQ(*listener.Listen(Stream::kPuts, cursor, In()), std::vector<Announcement>{Of(one_)})
      << "while it waits";
  later.join();
  std::string late;
  EXPECT_TRUE(listener.Listen(Stream::kPuts, late, In(60))->empty())
      << "an empty cursor is the end of the stream";
}

TEST_P(RedisSharedServerTest, NoticesAreAStreamOfTheirOwnWithTheirRecords) {
  RedisSharedServer server(Options()), listener(Options());
  std::string puts, notices;
  const auto heard = [&](std::string& cursor) {
    // At once, whether there are any or not.
    return *listener.Listen(Stream::kNotices, cursor, steady_clock::now());
  };
  EXPECT_TRUE(heard(notices).empty());
  EXPECT_TRUE(listener.Listen(Stream::kPuts, puts, In(60))->empty());
  const std::string record("bytes\0\xff", 7);
  EXPECT_TRUE(*server.Put(Of(one_), record, 1, Stream::kNotices, In()));
  EXPECT_EQ(**server.Get(one_, In()), record);
  Announcement notice = Of(one_);
  notice.record = record;
  EXPECT_EQ(heard(notices), std::vector<Announcement>{notice});
  EXPECT_TRUE(heard(notices).empty());
  EXPECT_TRUE(listener.Listen(Stream::kPuts, puts, In(60))->empty());
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(*server.Put(Of(two_), "r", i, Stream::kNotices, In()));
  EXPECT_EQ(heard(notices).size(), SharedServer::kMostAnnouncements);
  EXPECT_EQ(heard(notices).size(), 300 - SharedServer::kMostAnnouncements);
  EXPECT_TRUE(heard(notices).empty());
  // Another server, whose clock is behind: all that it has is new.
  ASSERT_TRUE(redis_->Restart().ok());
  Raw({"XADD", "uopd:1:notices", "1000-0", "address", one_.view(), "store", "kernel", "environment",
       HashBytes("env").view(), "record", record});
  EXPECT_TRUE(test::Eventually([&] {
    const auto some = listener.Listen(Stream::kNotices, notices, steady_clock::now());
    return some.ok() && *some == std::vector<Announcement>{notice};
  }));
  EXPECT_TRUE(heard(notices).empty());
}

TEST_P(RedisSharedServerTest, AListenerHearsANewServerWhoseClockIsBehind) {
  RedisSharedServer listener(Options());
  std::string cursor;
  const auto add = [&](std::string_view number, const Announcement& what) {
    Raw({"XADD", "uopd:1:puts", number, "address", what.address.view(), "store", what.store,
         "environment", what.environment.view()});
  };
  add("2000-9", Of(one_));
  EXPECT_TRUE(listener.Listen(Stream::kPuts, cursor, In(20))->empty());
  add("2000-10", Of(two_));
  EXPECT_EQ(*listener.Listen(Stream::kPuts, cursor, In()), std::vector<Announcement>{Of(two_)});
  ASSERT_TRUE(redis_->Restart().ok());
  EXPECT_FALSE(listener.Listen(Stream::kPuts, cursor, In(20)).ok()) << "its connection ended";
  add("1000-0", Of(one_));
  EXPECT_EQ(*listener.Listen(Stream::kPuts, cursor, In()), std::vector<Announcement>{Of(one_)});
  add("1000-1", Of(two_));
  EXPECT_EQ(*listener.Listen(Stream::kPuts, cursor, In()), std::vector<Announcement>{Of(two_)});
}

TEST_P(RedisSharedServerTest, ForeignKeysAreAnswersOfAnotherKind) {
  RedisSharedServer server(Options());
  Raw({"SET", Cat("uopd:1:{", one_.Hex(), "}:row"), "text"});
  Raw({"SET", Cat("uopd:1:{", one_.Hex(), "}:lease"), "text"});
  Raw({"SET", "uopd:1:puts", "text"});
  EXPECT_TRUE(absl::IsUnavailable(server.Get(one_, In()).status()));
  EXPECT_TRUE(absl::IsUnavailable(server.Put(Of(one_), "r", 1, Stream::kPuts, In()).status()));
  EXPECT_TRUE(absl::IsUnavailable(server.TryLease(one_, "a", kLeaseUs, In()).status()));
  std::string cursor;
  EXPECT_TRUE(absl::IsUnavailable(server.Listen(Stream::kPuts, cursor, In(60)).status()));
  EXPECT_TRUE(*server.Put(Of(two_), "r", 1, Stream::kPuts, In()))
      << "the record is there, although nobody hears of it";
  EXPECT_EQ(**server.Get(two_, In()), "r");
  Raw({"DEL", "uopd:1:puts"});
  Raw({"XADD", "uopd:1:puts", "*", "address", "short"});
  EXPECT_TRUE(server.Listen(Stream::kPuts, cursor, In(60))->empty());
}

TEST_P(RedisSharedServerTest, AServerThatStopsCostsTheDeadlines) {
  RedisSharedServer server(Options());
  ASSERT_TRUE(server.Get(one_, In()).ok());
  redis_->Pause();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(server.Get(one_, In(20)).status()));
  }
  redis_->Continue();
  EXPECT_TRUE(server.Get(one_, In()).ok());
}

INSTANTIATE_TEST_SUITE_P(Servers, RedisSharedServerTest, ::testing::Values("redis", "valkey"),
                         [](const auto& server) { return std::string(server.param); });

}  // namespace
}  // namespace uopd::cache
