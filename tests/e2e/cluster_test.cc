// SPDX-License-Identifier: MIT
// Daemons with data folders of their own that share a server of Redis: what one of them has
// compiled or tuned, no other one does. A server that is gone costs them that, and no error.
#include <cstdio>
#include <thread>

#include "tests/e2e/graphs.h"
#include "tests/e2e/shared_cache_fixture.h"
#include "tests/support/redis/redis_process.h"

namespace uopd::e2e {
namespace {

class ClusterTest : public SharedCacheFixture {
 protected:
  void SetUp() override {
    auto started = test::RedisProcess::Start({.flags = {"--requirepass", "hunter2"}});
    ASSERT_TRUE(started.ok()) << started.status();
    redis_ = *std::move(started);
    Write("password", "hunter2\n");
    Write("other.key", std::string(64, 'b') + "\n");
  }
  std::string Url() const { return "redis://127.0.0.1:" + std::to_string(redis_->port()); }
  std::unique_ptr<DaemonProcess> Start(const std::string& name, std::vector<std::string> more = {},
                                       const std::string& key = "key") const {
    more.push_back("--cache-cluster-password-file=" + File("password"));
    return StartWith(name, FlagsFor(Url(), key), more);
  }

  std::unique_ptr<test::RedisProcess> redis_;
};

TEST_F(ClusterTest, OneCompileForThreeDaemonsAndTwelveClients) {
  constexpr int kClients = 12, kGraphs = 3;
  std::vector<std::unique_ptr<DaemonProcess>> daemons;
  for (const char* name : {"a", "b", "c"}) daemons.push_back(Start(name));
  std::vector<std::jthread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      for (int g = 0; g < kGraphs; ++g)
        Prepare(*daemons[static_cast<size_t>(i) % daemons.size()],
                SlowToCompile(100 + (g + i) % kGraphs, 20));
    });
  }
  threads.clear();  // joins
  double compiled = 0;
  for (const auto& daemon : daemons) compiled += Compiled(*daemon);
  EXPECT_EQ(compiled, kGraphs) << daemons[0]->Log() << daemons[1]->Log() << daemons[2]->Log();
  // One with an empty disk joins.
  const auto fourth = Start("d");
  for (int g = 0; g < kGraphs; ++g) {
    const v1::CacheOutcome cache = Prepare(*fourth, SlowToCompile(100 + g, 20));
    // Once it has asked for one, the server announces others, which are on its own disk then.
    EXPECT_EQ(cache.kernels_cluster() + cache.kernels_disk(), 1u);
    if (g == 0) {
      EXPECT_EQ(cache.kernels_cluster(), 1u);
    }
  }
  EXPECT_EQ(Compiled(*fourth), 0);
  EXPECT_GE(Count(*fourth, "uopd_cluster_lookups_total{result=\"hit\"}"), kGraphs);
  // And has it on its own disk now.
  redis_->Kill();
  fourth->Signal(SIGTERM);
  EXPECT_EQ(fourth->Wait(), 0);
  const auto again = Start("d");
  for (int g = 0; g < kGraphs; ++g) {
    const v1::CacheOutcome cache = Prepare(*again, SlowToCompile(100 + g, 20));
    EXPECT_EQ(cache.kernels_disk(), 1u);
    EXPECT_EQ(cache.kernels_cluster(), 0u);
  }
  EXPECT_EQ(Compiled(*again), 0);
}

TEST_F(ClusterTest, ADaemonThatDoesNotTrustTheKeyTakesNothing) {
  const auto one = Start("a");
  const auto other = Start("b", {}, "other.key");
  const std::string graph = SlowToCompile(110, 10);
  Prepare(*one, graph);
  ASSERT_TRUE(test::Eventually(
      [&] { return Count(*one, "uopd_cluster_puts_total{result=\"sent\"}") >= 1; }));
  Prepare(*other, graph);
  EXPECT_EQ(Compiled(*other), 1);
  EXPECT_GE(Count(*other, "uopd_cluster_refused_total{reason=\"unknown_key\"}"), 1);
}

TEST_F(ClusterTest, AServerThatIsGoneCostsNoError) {
  const auto daemon = Start("a", {"--cache-cluster-budget-ms=20ms"});
  Prepare(*daemon, SlowToCompile(120, 10));
  redis_->Kill();
  for (int i = 1; i < 6; ++i) Prepare(*daemon, SlowToCompile(120 + i, 5));
  EXPECT_EQ(Compiled(*daemon), 6);
  EXPECT_EQ(daemon->Metric("uopd_cluster_reachable"), 0) << daemon->Log();
  ASSERT_TRUE(redis_->Restart().ok());
  // What was compiled meanwhile reaches the others by itself.
  EXPECT_TRUE(AwaitSent(*daemon)) << daemon->Log();
  EXPECT_EQ(daemon->Metric("uopd_cluster_reachable"), 1);
  const auto other = Start("b");
  for (int i = 1; i < 6; ++i) Prepare(*other, SlowToCompile(120 + i, 5));
  EXPECT_EQ(Compiled(*other), 0);
  EXPECT_EQ(daemon->Log().find("hunter2"), std::string::npos);
}

TEST_F(ClusterTest, SettingsThatCannotWorkAreRefusedByName) {
  struct Case {
    std::vector<std::string> flags;
    std::string setting;
  };
  const std::string server = "--cache-cluster=" + Url(),
                    sign = "--cache-cluster-sign-key=" + File("key");
  const Case cases[] = {
      {{"--cache-cluster=redis://:hunter2@host", sign}, "cache.cluster_password_file"},
      {{"--cache-cluster=ftp://host", sign}, "cache.cluster"},
      {{server}, "cache.cluster_sign_key"},
      {{server, "--cache-cluster-sign-key=" + File("missing")}, "cache.cluster_sign_key"},
      {{server, "--cache-cluster-trusted-keys=" + File("key") + "," + File("password")},
       "cache.cluster_trusted_keys"},
      {{server, sign, "--cache-cluster-password-file=" + File("missing")},
       "cache.cluster_password_file"},
      {{"--cache-cluster=rediss://host", sign, "--cache-cluster-ca-file=" + File("missing")},
       "cache.cluster_ca_file"},
      {{server, sign, "--cache-level=0"}, "cache.level"}};
  for (const Case& one : cases) {
    std::string line =
        std::string(UOPD_BINARY) + " --server-listen=127.0.0.1:0 --server-data-dir=" + File("data");
    for (const std::string& flag : one.flags) line += " '" + flag + "'";
    FILE* out = popen((line + " 2>&1").c_str(), "r");
    ASSERT_NE(out, nullptr);
    std::string text(4096, '\0');
    text.resize(fread(text.data(), 1, text.size(), out));
    EXPECT_NE(pclose(out), 0) << text;
    EXPECT_NE(text.find(one.setting), std::string::npos) << text;
    EXPECT_EQ(text.find("hunter2"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace uopd::e2e
