// SPDX-License-Identifier: MIT
// Daemons with data folders of their own that share a server of Redis: what one of them has compiled or tuned, no other
// one does. A server that is gone costs them that, and no error.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <thread>

#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"
#include "tests/support/redis/redis_process.h"

namespace uopd::e2e {
namespace {

class ClusterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto started = test::RedisProcess::Start({.flags = {"--requirepass", "hunter2"}});
    ASSERT_TRUE(started.ok()) << started.status();
    redis_ = *std::move(started);
    Write("password", "hunter2\n");
    Write("key", std::string(64, 'a') + "\n");
    Write("other.key", std::string(64, 'b') + "\n");
  }
  std::string File(const std::string& name) const { return (folder_.path() / name).string(); }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(File(name)) << text;
    chmod(File(name).c_str(), 0600);
  }
  // The flags of a daemon of the cluster.
  std::vector<std::string> Flags(const std::string& key = "key") const {
    return {"--cache-cluster=redis://127.0.0.1:" + std::to_string(redis_->port()),
            "--cache-cluster-password-file=" + File("password"),
            "--cache-cluster-sign-key=" + File(key),
            // This machine is slower than its servers when tests run side by side.
            "--cache-cluster-budget-ms=2s",
            "--compile-fast-tier=false",  // each kernel is compiled once
            "--compile-warm-up=false"};
  }
  std::unique_ptr<DaemonProcess> Start(const std::string& name, std::vector<std::string> more = {},
                                       const std::string& key = "key") const {
    std::vector<std::string> flags = Flags(key);
    flags.insert(flags.end(), more.begin(), more.end());
    std::filesystem::create_directories(folder_.path() / name);
    return std::make_unique<DaemonProcess>(folder_.path() / name, flags);
  }
  static double Count(const DaemonProcess& daemon, const std::string& series) {
    return std::max(0.0, daemon.Metric(series));
  }
  static double Compiled(const DaemonProcess& daemon) {
    return Count(daemon, "uopd_kernels_compiled_total");
  }
  static void Prepare(const DaemonProcess& daemon, const std::string& graph) {
    Client client(daemon);
    ASSERT_TRUE(client.OpenSession().ok());
    grpc::Status status;
    client.Prepare(graph, &status);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  TemporaryFolder folder_;
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
  for (int g = 0; g < kGraphs; ++g) Prepare(*fourth, SlowToCompile(100 + g, 20));
  EXPECT_EQ(Compiled(*fourth), 0);
  EXPECT_GE(Count(*fourth, "uopd_cluster_lookups_total{result=\"hit\"}"), kGraphs);
  // And has it on its own disk now.
  redis_->Kill();
  fourth->Signal(SIGTERM);
  EXPECT_EQ(fourth->Wait(), 0);
  const auto again = Start("d");
  for (int g = 0; g < kGraphs; ++g) Prepare(*again, SlowToCompile(100 + g, 20));
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
  EXPECT_TRUE(test::Eventually([&] { return daemon->Metric("uopd_cluster_queue_bytes") == 0; }))
      << daemon->Log();
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
  const std::string server = Flags()[0];
  const Case cases[] = {
      {{"--cache-cluster=redis://:hunter2@host", Flags()[2]}, "cache.cluster_password_file"},
      {{"--cache-cluster=ftp://host", Flags()[2]}, "cache.cluster"},
      {{server}, "cache.cluster_sign_key"},
      {{server, "--cache-cluster-sign-key=" + File("missing")}, "cache.cluster_sign_key"},
      {{server, "--cache-cluster-trusted-keys=" + File("key") + "," + File("password")},
       "cache.cluster_trusted_keys"},
      {{server, Flags()[2], "--cache-cluster-password-file=" + File("missing")},
       "cache.cluster_password_file"},
      {{"--cache-cluster=rediss://host", Flags()[2], "--cache-cluster-ca-file=" + File("missing")},
       "cache.cluster_ca_file"},
      {{server, Flags()[2], "--cache-level=0"}, "cache.level"}};
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
