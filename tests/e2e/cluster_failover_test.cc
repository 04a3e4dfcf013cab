// SPDX-License-Identifier: MIT
// The server of the cluster ends, and its sentinel makes a replica the new one: requests do not
// notice, what was shared is there still, and what comes later is shared again.
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "tests/e2e/graphs.h"
#include "tests/e2e/shared_cache_fixture.h"
#include "tests/support/redis/redis_process.h"

namespace uopd::e2e {
namespace {

using test::Eventually;

class ClusterFailoverTest : public SharedCacheFixture {
 protected:
  void SetUp() override {
    first_ = Start({});
    second_ = Start({.flags = {"--replicaof", "127.0.0.1", Cat(first_->port())}});
    sentinel_ = Start({.sentinel_of = first_->port()});
    sentinel_->Ask("SENTINEL SET main down-after-milliseconds 500");
    sentinel_->Ask("SENTINEL SET main failover-timeout 2000");
    ASSERT_TRUE(
        Eventually([&] { return Has(*second_, "INFO replication", "master_link_status:up"); }));
    ASSERT_TRUE(Eventually([&] { return Has(*sentinel_, "INFO sentinel", "slaves=1"); }))
        << sentinel_->Ask("INFO sentinel");
  }
  static std::unique_ptr<test::RedisProcess> Start(const test::RedisOptions& options) {
    auto started = test::RedisProcess::Start(options);
    EXPECT_TRUE(started.ok()) << started.status();
    return started.ok() ? *std::move(started) : nullptr;
  }
  static bool Has(const test::RedisProcess& server, const std::string& command, const char* text) {
    return server.Ask(command).find(text) != std::string::npos;
  }
  std::unique_ptr<DaemonProcess> StartDaemon(const std::string& name) const {
    const std::string url = Cat("redis+sentinel://127.0.0.1:", sentinel_->port(), "/main");
    return StartWith(name, FlagsFor(url, "key"), {});
  }
  static void Add(const DaemonProcess& daemon, int64_t n) {
    Client client(daemon);
    ASSERT_TRUE(client.OpenSession().ok());
    ExpectAdds(client, n);
  }

  std::unique_ptr<test::RedisProcess> first_, second_, sentinel_;
};

TEST_F(ClusterFailoverTest, DaemonsFollowToTheNewServer) {
  const auto a = StartDaemon("a"), b = StartDaemon("b");
  Add(*a, 1);
  ASSERT_TRUE(AwaitSent(*a));
  Add(*b, 1);
  EXPECT_EQ(Compiled(*b), 0) << "it is in the first server";
  ASSERT_TRUE(Eventually([&] { return Has(*second_, "DBSIZE", first_->Ask("DBSIZE").c_str()); }));

  first_->Kill();
  int64_t n = 1;
  // Whatever the state of the servers is, requests are served.
  ASSERT_TRUE(Eventually([&] {
    Add(*a, ++n);
    return Has(*second_, "ROLE", "master");
  })) << sentinel_->Ask("INFO sentinel");
  for (const DaemonProcess* daemon : {a.get(), b.get()})
    ASSERT_TRUE(Eventually([&] {
      Add(*daemon, ++n);
      return daemon->Metric("uopd_cluster_reachable") == 1;
    })) << daemon->Log();
  ASSERT_TRUE(AwaitSent(*a) && AwaitSent(*b));

  const auto c = StartDaemon("c");
  Add(*c, 1);
  EXPECT_EQ(Compiled(*c), 0) << "it was in the replica";
  // The kernels that daemon a compiled while there was no server, and afterwards, are shared as
  // well.
  EXPECT_TRUE(Eventually([&] {
    const auto late = StartDaemon(Cat("late", ++n));
    Add(*late, 2);
    return Compiled(*late) == 0;
  }));
  EXPECT_EQ(Count(*a, "uopd_cluster_puts_total{result=\"dropped\"}"), 0);
}

}  // namespace
}  // namespace uopd::e2e
