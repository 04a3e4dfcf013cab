// SPDX-License-Identifier: MIT
// URLs of a cluster tier.
#include "cache/redis/redis_url.h"

#include <gtest/gtest.h>

namespace uopd::cache {
namespace {

TEST(RedisUrlTest, PlainUrls) {
  const auto url = ParseRedisUrl("redis://user@host:7000/3");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->servers, (std::vector<RedisServer>{{"host", 7000}}));
  EXPECT_EQ(url->user, "user");
  EXPECT_EQ(url->database, 3);
  EXPECT_FALSE(url->tls);
  EXPECT_EQ(ParseRedisUrl("redis://host")->servers.front().port, 6379);
  EXPECT_TRUE(ParseRedisUrl("rediss://host/")->tls);
  EXPECT_EQ(ParseRedisUrl("redis://[::1]:7")->servers, (std::vector<RedisServer>{{"::1", 7}}));
  EXPECT_EQ(Name(RedisServer{"::1", 7}), "[::1]:7");
  EXPECT_EQ(Name(RedisServer{"host", 7}), "host:7");
}

TEST(RedisUrlTest, SocketsAndSentinels) {
  const auto unix = ParseRedisUrl("redis+unix:///run/redis.sock?db=2");
  ASSERT_TRUE(unix.ok()) << unix.status();
  EXPECT_EQ(unix->unix_path, "/run/redis.sock");
  EXPECT_EQ(unix->database, 2);
  const auto sentinels = ParseRedisUrl("rediss+sentinel://u@a,b:1,[::1]/main/4");
  ASSERT_TRUE(sentinels.ok()) << sentinels.status();
  EXPECT_EQ(sentinels->servers, (std::vector<RedisServer>{{"a", 26379}, {"b", 1}, {"::1", 26379}}));
  EXPECT_EQ(sentinels->sentinel_name, "main");
  EXPECT_EQ(sentinels->database, 4);
  EXPECT_TRUE(sentinels->tls);
}

TEST(RedisUrlTest, ErrorsNameThePartAndNeverThePassword) {
  for (const char* text :
       {"", "host", "http://host", "redis://", "redis://:1", "redis://host:0", "redis://host:x",
        "redis://host:65536", "redis://host/x", "redis://host/-1", "redis://[::1", "redis://[::1]x",
        "redis+unix://relative", "redis+unix:///a?user=b", "redis+sentinel://a",
        "redis+sentinel:///name", "redis+sentinel://a,,b/name", "redis://user:hunter2@host",
        "redis://:hunter2@host"}) {
    const absl::Status status = ParseRedisUrl(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(status.message().find("hunter2"), std::string::npos) << status;
    EXPECT_NE(status.message().find("URL"), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace uopd::cache
