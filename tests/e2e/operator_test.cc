// SPDX-License-Identifier: MIT
// What operators ask a daemon by uopctl: how it is, who uses it, its settings; and how they end it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "absl/strings/escaping.h"
#include "core/base/digest.h"
#include "core/base/text.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/e2e/uopctl.h"
#include "tests/support/eventually.h"
#include "tests/support/redis/redis_process.h"

namespace uopd::e2e {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kEndless = int64_t{1}
                             << 40;  // elements whose run does not end in the time of a test

class OperatorE2eTest : public ::testing::Test {
 protected:
  std::filesystem::path Folder(const char* name) {
    const auto path = folder_.path() / name;
    std::filesystem::create_directories(path);
    return path;
  }
  std::string File(const char* name, const std::string& text) {
    const std::string path = (folder_.path() / name).string();
    std::ofstream(path) << text;
    chmod(path.c_str(), 0600);
    return path;
  }
  // A daemon with the tenants alice, who is an operator, and bob; their tokens are in files of
  // these names.
  std::vector<std::string> TenantFlags() {
    File("alice", "a");
    File("bob", "b");
    const std::string tokens =
        File("tokens", Cat("alice ", HashBytes("a").Hex(), "\nbob ", HashBytes("b").Hex(), "\n"));
    return {"--server-token-file=" + tokens, "--server-operators=alice"};
  }
  std::string As(const char* tenant) const {
    return Cat("--token-file ", (folder_.path() / tenant).string(), " ");
  }

  TemporaryFolder folder_;
};

TEST_F(OperatorE2eTest, StatusIsOnePage) {
  DaemonProcess daemon(Folder("a"), {"--device-list=CPU,NULL", "--limits-total-bytes=1GiB"});
  const UopctlRun run = RunCtl(daemon, "--json status");
  ASSERT_EQ(run.code, 0) << run.out << run.err;
  const json status = run.data();
  EXPECT_EQ(status["state"], "ready") << run.out;
  EXPECT_EQ(status["pid"], daemon.pid());
  EXPECT_GT(status["uptime_seconds"], 0);
  EXPECT_LT(status["uptime_seconds"], 600);
  ASSERT_EQ(status["devices"].size(), 2u);
  EXPECT_EQ(status["devices"][0]["name"], "CPU:0");
  EXPECT_EQ(status["devices"][0]["state"], "ready");
  EXPECT_EQ(status["sessions"]["open"], 0);  // uopctl itself opens none
  EXPECT_EQ(status["sessions"]["most"], 1000);
  EXPECT_EQ(status["memory"]["most_client_bytes"], 1 << 30);
  EXPECT_EQ(status["cache"]["state"], "ok");
  EXPECT_EQ(status["contents"]["memory_contents"], 0);
  EXPECT_EQ(status["contents"]["most_memory_bytes"], 1 << 29);  // half of what clients may have
  EXPECT_EQ(status["cluster"]["configured"], false);
  EXPECT_GT(status["pools"].size(), 2u);
  EXPECT_GT(status["workers"].size(), 2u);
  const UopctlRun page = RunCtl(daemon, "status");
  EXPECT_EQ(page.code, 0);
  for (const char* line : {"state      ready", "device     CPU:0 ready", "sessions   0 of 1000",
                           "cluster    not configured", "cache      ok"})
    EXPECT_THAT(page.out, HasSubstr(line));
}

TEST_F(OperatorE2eTest, StatusSaysWhatIsNotAsItShouldBe) {
  DaemonProcess daemon(Folder("a"), {"--device-list=CPU,CUDA:7"});
  RunCtl(daemon, "devices");  // opens them
  const json status = RunCtl(daemon, "--json status").data();
  EXPECT_EQ(status["state"], "degraded") << status.dump();
  EXPECT_THAT(status["reasons"][0].get<std::string>(), HasSubstr("device CUDA:7 is not ready: "));
  EXPECT_EQ(status["devices"][1]["state"], "not_ready");
  EXPECT_EQ(RunCtl(daemon, "status").code, 0);  // it serves
  DaemonProcess other(Folder("b"), {"--device-list=CUDA:7,CPU"});
  const UopctlRun not_ready = RunCtl(other, "--json status");
  EXPECT_EQ(not_ready.code, 1);
  EXPECT_EQ(not_ready.data()["state"], "not_ready");
  EXPECT_EQ(not_ready.error()["kind"], "failed");
}

TEST_F(OperatorE2eTest, SessionsAreListedWithWhatTheyHoldAndRun) {
  DaemonProcess daemon(Folder("a"));
  Client small(daemon), large(daemon);
  ASSERT_TRUE(small.OpenSession().ok());
  ASSERT_TRUE(large.OpenSession().ok());
  ASSERT_TRUE(large.Create(1, 1 << 20).ok());
  ASSERT_TRUE(large.Create(2, 1 << 20).ok());
  json found = RunCtl(daemon, "--json sessions").data();
  ASSERT_EQ(found["sessions"].size(), 2u) << found.dump();
  const json first = found["sessions"][0];
  EXPECT_EQ(first["id_prefix"], large.session().substr(0, 8));
  EXPECT_EQ(first["buffers"], 2);
  EXPECT_GE(first["held_bytes"], 2 << 20);
  EXPECT_EQ(first["running"], nullptr);
  EXPECT_GT(first["age_seconds"], 0);
  EXPECT_LT(first["idle_seconds"], 60);
  EXPECT_EQ(first["ttl_seconds"], 300);
  EXPECT_EQ(found["left_out"], 0);
  found = RunCtl(daemon, "--json sessions --limit 1").data();
  EXPECT_EQ(found["sessions"].size(), 1u);
  EXPECT_EQ(found["left_out"], 1);
  // Nobody can use a session by what is shown.
  EXPECT_THAT(RunCtl(daemon, "sessions").out, Not(HasSubstr(large.session())));

  const std::string graph = LongGraph(kEndless);
  const std::string digest = absl::BytesToHexString(small.Prepare(graph).digest());
  std::atomic<bool> ended{false};
  std::thread run([&] {
    small.Execute("", graph, {Returned()}, 7);
    ended = true;
  });
  EXPECT_TRUE(test::Eventually([&] {
    const json data = RunCtl(daemon, "--json sessions").data();
    for (const json& one : data["sessions"]) {
      if (one["running"].is_null()) continue;
      EXPECT_EQ(one["id_prefix"], small.session().substr(0, 8));
      EXPECT_EQ(one["running"]["graph"], digest.substr(0, 16));
      EXPECT_EQ(one["calls"], 1);
      return true;
    }
    return ended.load();
  }));
  EXPECT_FALSE(ended.load()) << "the run was not seen";
  grpc::ClientContext context;
  v1::CancelExecuteRequest cancel;
  cancel.set_session_id(small.session());
  cancel.set_request_id(7);
  v1::CancelExecuteResponse response;
  EXPECT_TRUE(small.stub().CancelExecute(&context, cancel, &response).ok());
  run.join();
  EXPECT_TRUE(test::Eventually([&] {
    return RunCtl(daemon, "--json sessions").data()["sessions"][1]["running"].is_null();
  }));
}

TEST_F(OperatorE2eTest, AFullDaemonIsStillLookedAt) {
  DaemonProcess daemon(Folder("a"), {"--limits-sessions=1"});
  Client client(daemon);
  ASSERT_TRUE(client.OpenSession().ok());
  EXPECT_EQ(RunCtl(daemon, "--json status").data()["sessions"]["open"], 1);
  EXPECT_EQ(RunCtl(daemon, "--json sessions").data()["sessions"].size(), 1u);
  for (const char* command : {"config", "cluster", "devices", "cache stats", "quarantine list"})
    EXPECT_EQ(RunCtl(daemon, command).code, 0) << command;
  const std::string graph = UOPD_SOURCE_DIR "/docs/examples/matmul.uop";
  const UopctlRun refused = RunCtl(daemon, "--json run " + graph);
  EXPECT_EQ(refused.code, 4);
  EXPECT_EQ(refused.error()["code"], "RESOURCE_EXHAUSTED");
}

TEST_F(OperatorE2eTest, SettingsSayWhereTheyComeFrom) {
  const std::string file = File("uopd.toml", "[limits]\nsessions = 77\n[log]\nlevel = \"debug\"\n");
  setenv("UOPD_TUNE_CANDIDATES", "123", 1);
  DaemonProcess daemon(Folder("a"), {"--config=" + file, "--limits-waiting=99"});
  unsetenv("UOPD_TUNE_CANDIDATES");
  const auto settings = [&] {
    std::map<std::string, json> out;
    const json data = RunCtl(daemon, "--json config").data();
    for (const json& one : data["settings"]) out[one["key"].get<std::string>()] = one;
    return out;
  };
  auto found = settings();
  EXPECT_EQ(found["limits.sessions"]["value"], "77");
  EXPECT_EQ(found["limits.sessions"]["source"], "file");
  EXPECT_EQ(found["limits.sessions"]["default"], "1000");
  EXPECT_EQ(found["limits.sessions"]["reloadable"], true);
  EXPECT_EQ(found["tune.candidates"]["value"], "123");
  EXPECT_EQ(found["tune.candidates"]["source"], "environment");
  EXPECT_EQ(found["limits.waiting"]["source"], "flag");
  EXPECT_EQ(found["cache.level"]["source"], "default");
  const json changed = RunCtl(daemon, "--json config --changed").data()["settings"];
  for (const json& one : changed) EXPECT_NE(one["source"], "default") << one.dump();
  EXPECT_LT(changed.size(), found.size());
  EXPECT_THAT(RunCtl(daemon, "config --changed").out, HasSubstr("limits.sessions"));

  // What is in effect is shown, and not what was read and needs a restart.
  File("uopd.toml", "[limits]\nsessions = 78\n[log]\nlevel = \"debug\"\n[tune]\nsettle_ms = 1\n");
  daemon.Signal(SIGHUP);
  EXPECT_TRUE(test::Eventually([&] { return settings()["limits.sessions"]["value"] == "78"; }));
  EXPECT_EQ(settings()["tune.settle_ms"]["source"], "default");
}

TEST_F(OperatorE2eTest, DrainEndsTheDaemonThatIsMeant) {
  DaemonProcess daemon(Folder("a"), {"--server-drain-timeout-ms=7s"});
  Client client(daemon);
  grpc::ClientContext context;
  v1::DrainRequest other;
  other.set_instance("another");
  v1::DrainResponse response;
  EXPECT_EQ(client.stub().Drain(&context, other, &response).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  ExpectServes(daemon);
  const UopctlRun run = RunCtl(daemon, "--json drain --wait");
  EXPECT_EQ(run.code, 0) << run.out << run.err;
  EXPECT_EQ(run.data()["ended"], true);
  EXPECT_EQ(run.data()["timeout_seconds"], 7);
  EXPECT_GE(run.data()["waited_seconds"], 0);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.Log();
  EXPECT_THAT(daemon.Log(), HasSubstr("an operator asks for the end"));
  const UopctlRun gone = RunCtl(daemon, "--json drain");
  EXPECT_EQ(gone.code, 3);
  EXPECT_EQ(gone.error()["kind"], "unreachable");
}

// In server.drain_delay_ms the daemon still serves, also an operator who asks for the end once
// more.
TEST_F(OperatorE2eTest, ADrainThatHasBegunIsNotCutOffByAnother) {
  DaemonProcess daemon(Folder("a"), {"--server-drain-delay-ms=3s"});
  daemon.Signal(SIGTERM);
  EXPECT_TRUE(test::Eventually(
      [&] { return RunCtl(daemon, "--json status").data().value("state", "") == "draining"; }));
  EXPECT_EQ(RunCtl(daemon, "drain --wait").code, 0);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.Log();
}

TEST_F(OperatorE2eTest, AWaitForTheEndOfADrainHasALimit) {
  DaemonProcess daemon(Folder("a"));
  Client client(daemon);
  ASSERT_TRUE(client.OpenSession().ok());
  std::thread run([&] { client.Execute("", LongGraph(kEndless), {Returned()}, 7); });
  EXPECT_TRUE(test::Eventually(
      [&] { return RunCtl(daemon, "sessions").out.find(" for ") != std::string::npos; }));
  const UopctlRun drain = RunCtl(daemon, "--json drain --wait --wait-limit 0.3");
  EXPECT_EQ(drain.code, 1) << drain.out;
  EXPECT_EQ(drain.data()["ended"], false);
  EXPECT_EQ(drain.error()["kind"], "failed");
  daemon.Signal(SIGTERM);  // the first signal
  EXPECT_TRUE(test::Eventually(
      [&] { return daemon.Log().find("a signal during the drain") != std::string::npos; }));
  daemon.Signal(SIGTERM);
  run.join();
  EXPECT_EQ(daemon.Wait(), 130);
}

TEST_F(OperatorE2eTest, OnlyOperatorsAreTold) {
  DaemonProcess daemon(Folder("a"), TenantFlags());
  for (const char* command : {"status", "sessions", "config", "cluster", "drain"}) {
    const UopctlRun refused = RunCtl(daemon, Cat(As("bob"), "--json ", command));
    EXPECT_EQ(refused.code, 4) << command;
    EXPECT_EQ(refused.error()["kind"], "refused") << command;
    EXPECT_EQ(refused.error()["code"], "PERMISSION_DENIED") << command;
    EXPECT_EQ(RunCtl(daemon, Cat("--json ", command)).error()["code"], "UNAUTHENTICATED")
        << command;
  }
  Client client(daemon);
  for (const char* command : {"status", "sessions --tenant bob", "config", "cluster"})
    EXPECT_EQ(RunCtl(daemon, Cat(As("alice"), command)).code, 0) << command;
  EXPECT_EQ(RunCtl(daemon, Cat(As("alice"), "drain --wait")).code, 0);
}

TEST_F(OperatorE2eTest, TheClusterIsShownWhileItIsThereAndAway) {
  auto redis = test::RedisProcess::Start();
  ASSERT_TRUE(redis.ok()) << redis.status();
  const std::string key = File("key", std::string(64, '1') + "\n");
  DaemonProcess daemon(Folder("a"), {Cat("--cache-cluster=redis://127.0.0.1:", (*redis)->port()),
                                     "--cache-cluster-sign-key=" + key});
  ASSERT_EQ(RunCtl(daemon, Cat("prepare ", UOPD_SOURCE_DIR, "/docs/examples/matmul.uop")).code, 0);
  EXPECT_TRUE(test::Eventually([&] {
    const json cluster = RunCtl(daemon, "--json cluster").data();
    return cluster["puts"]["sent"] >= 1 && cluster["lookups"]["miss"] >= 1;
  }));
  UopctlRun run = RunCtl(daemon, "--json cluster");
  EXPECT_EQ(run.code, 0) << run.out;
  EXPECT_EQ(run.data()["configured"], true);
  EXPECT_EQ(run.data()["reachable"], true);
  EXPECT_EQ(run.data()["can_put"], true);
  EXPECT_EQ(run.data()["last_error"], "");
  (*redis)->Kill();
  EXPECT_TRUE(test::Eventually(
      [&] { return RunCtl(daemon, "--json cluster").data()["reachable"] == false; }));
  run = RunCtl(daemon, "--json cluster");
  EXPECT_EQ(run.code, 1);
  EXPECT_NE(run.data()["last_error"], "");
  EXPECT_GT(run.data()["last_error_unix_seconds"], 1e9);
  const json status = RunCtl(daemon, "--json status").data();
  EXPECT_EQ(status["state"], "degraded");
  EXPECT_THAT(status["reasons"].dump(), HasSubstr("the server of the cluster has been away"));
  EXPECT_THAT(RunCtl(daemon, "cluster").out, HasSubstr("not reachable"));
}

}  // namespace
}  // namespace uopd::e2e
