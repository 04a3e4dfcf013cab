// SPDX-License-Identifier: MIT
// Connections that are kept, and the server that sentinels name.
#include "cache/redis/redis_pool.h"

#include <gtest/gtest.h>

#include "core/base/text.h"
#include "tests/support/redis/redis_process.h"

namespace uopd::cache {
namespace {

Deadline Later() { return std::chrono::steady_clock::now() + std::chrono::seconds(5); }

std::string AnswerTo(RedisPool& pool, const RedisConnection::Command& command) {
  auto connection = pool.Take(Later());
  EXPECT_TRUE(connection.ok()) << connection.status();
  if (!connection.ok()) return "";
  const auto reply = (*connection)->Run(command, Later());
  EXPECT_TRUE(reply.ok()) << reply.status();
  pool.Give(*std::move(connection));
  return reply.ok() ? (reply->kind == RespKind::kInteger ? Cat(reply->integer) : reply->text) : "";
}

TEST(RedisPoolTest, KeepsConnections) {
  const auto redis = test::RedisProcess::Start();
  ASSERT_TRUE(redis.ok()) << redis.status();
  RedisPool pool({.url = *ParseRedisUrl("redis+unix://" + (*redis)->socket())});
  const std::string id = AnswerTo(pool, {"CLIENT", "ID"});
  EXPECT_EQ(AnswerTo(pool, {"CLIENT", "ID"}), id);
  pool.Clear();
  EXPECT_NE(AnswerTo(pool, {"CLIENT", "ID"}), id);
}

TEST(RedisPoolTest, SentinelsNameTheServer) {
  const auto redis = test::RedisProcess::Start();
  ASSERT_TRUE(redis.ok()) << redis.status();
  const auto sentinel = test::RedisProcess::Start({.sentinel_of = (*redis)->port()});
  ASSERT_TRUE(sentinel.ok()) << sentinel.status();
  // The first sentinel is not there: nothing listens at its port.
  const std::string url = Cat("redis+sentinel://127.0.0.1:1,127.0.0.1:", (*sentinel)->port(), "/");
  RedisPool pool({.url = *ParseRedisUrl(url + "main")});
  EXPECT_EQ(AnswerTo(pool, {"SET", "k", "v"}), "OK");
  RedisPool direct({.url = *ParseRedisUrl("redis+unix://" + (*redis)->socket())});
  EXPECT_EQ(AnswerTo(direct, {"GET", "k"}), "v");
  RedisPool unknown({.url = *ParseRedisUrl(url + "other")});
  const absl::Status status = unknown.Take(Later()).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(status.message().find("does not know other"), std::string::npos) << status;
}

}  // namespace
}  // namespace uopd::cache
