// SPDX-License-Identifier: MIT
// A server of the cluster that is full, with each policy of Redis for what to do then. No request
// fails, and no answer differs; a server that refuses records gets them once it has room.
#include <gtest/gtest.h>

#include "absl/strings/numbers.h"
#include "core/base/text.h"
#include "tests/e2e/graphs.h"
#include "tests/e2e/shared_cache_fixture.h"
#include "tests/support/redis/redis_process.h"

namespace uopd::e2e {
namespace {

constexpr int kGraphs = 60;

class ClusterFullTest : public SharedCacheFixture,
                        public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    auto started = test::RedisProcess::Start({.flags = {"--maxmemory-policy", GetParam()}});
    ASSERT_TRUE(started.ok()) << started.status();
    redis_ = *std::move(started);
  }
  // The number behind `name` in a text; -1: there is none.
  static int64_t Number(const std::string& text, const std::string& name) {
    const size_t at = text.find(name);
    if (at == std::string::npos) return -1;
    int64_t out = -1;
    const size_t begin = at + name.size();
    return absl::SimpleAtoi(text.substr(begin, text.find_first_of("\r\n", begin) - begin), &out)
               ? out
               : -1;
  }
  std::unique_ptr<DaemonProcess> Start(const std::string& name) const {
    return StartWith(name, FlagsFor("redis+unix://" + redis_->socket(), "key"), {});
  }
  static void RunAll(const DaemonProcess& daemon) {
    Client client(daemon);
    ASSERT_TRUE(client.OpenSession().ok());
    for (int64_t n = 1; n <= kGraphs; ++n) {
      const std::vector<float> a = Scattered(n, 1), b = Scattered(n, 2);
      const auto result =
          client.Execute("", AddGraph(n), {Returned(), Data(Bytes(a)), Data(Bytes(b))});
      ASSERT_TRUE(result.status.ok()) << n << " " << result.status.error_message();
      const std::vector<float> sum = Floats(result.response.data(0));
      for (int64_t i = 0; i < n; ++i)
        ASSERT_EQ(sum[static_cast<size_t>(i)],
                  a[static_cast<size_t>(i)] + b[static_cast<size_t>(i)]);
    }
  }

  std::unique_ptr<test::RedisProcess> redis_;
};

TEST_P(ClusterFullTest, NoRequestFails) {
  const auto one = Start("a"), other = Start("b");
  // Connections take memory of the server, too. So it gets room for a few records beside those of
  // now.
  for (const auto& daemon : {one.get(), other.get()}) Prepare(*daemon, FlipGraph(8));
  ASSERT_TRUE(AwaitSent(*one) && AwaitSent(*other));
  const int64_t used = Number(redis_->Ask("INFO memory"), "used_memory:");
  ASSERT_GT(used, 0);
  redis_->Ask(Cat("CONFIG SET maxmemory ", used + (96 << 10)));
  RunAll(*one);
  RunAll(*other);
  EXPECT_EQ(Count(*other, "uopd_cluster_refused_total{reason=\"content\"}"), 0);
  EXPECT_EQ(Count(*other, "uopd_cluster_refused_total{reason=\"checksum\"}"), 0);
  if (std::string_view(GetParam()) != "noeviction") {
    EXPECT_TRUE(AwaitSent(*one) && AwaitSent(*other));
    // Records expire, so the policies for what expires have something to take, too.
    EXPECT_GT(Number(redis_->Ask("INFO stats"), "evicted_keys:"), 0) << redis_->Ask("INFO memory");
    return;
  }
  EXPECT_TRUE(test::Eventually([&] {
    return Count(*one, "uopd_cluster_puts_total{result=\"failed\"}") > 0;
  })) << one->Log();
  EXPECT_EQ(Number(redis_->Ask("INFO stats"), "evicted_keys:"), 0);
  redis_->Ask("CONFIG SET maxmemory 0");
  EXPECT_TRUE(AwaitSent(*one)) << one->Log();
  EXPECT_TRUE(AwaitSent(*other)) << other->Log();
  const auto third = Start("c");
  RunAll(*third);
  EXPECT_EQ(Compiled(*third), 0) << "records that were refused are there now";
}

INSTANTIATE_TEST_SUITE_P(Policies, ClusterFullTest,
                         ::testing::Values("noeviction", "allkeys-lru", "allkeys-lfu",
                                           "allkeys-random", "volatile-lru", "volatile-lfu",
                                           "volatile-random", "volatile-ttl"),
                         [](const auto& info) {
                           std::string out;
                           for (const char c : std::string_view(info.param))
                             if (c != '-') out += c;
                           return out;
                         });

}  // namespace
}  // namespace uopd::e2e
