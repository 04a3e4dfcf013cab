// SPDX-License-Identifier: MIT
// uopctl diagnose: what is in its file, what is not, and the causes that it names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "core/base/digest.h"
#include "core/base/text.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/e2e/uopctl.h"

namespace uopd::e2e {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class DiagnoseTest : public ::testing::Test {
 protected:
  // Runs the command, and unpacks its file into the folder "out".
  UopctlRun Diagnose(const std::string& arguments) {
    const std::string file = (folder_.path() / "d.tar.gz").string(),
                      out = (folder_.path() / "out").string();
    std::filesystem::remove_all(out);
    std::filesystem::create_directories(out);
    UopctlRun run = RunCtl(Cat("--json diagnose --output ", file, " ", arguments));
    struct stat info{};
    EXPECT_EQ(stat(file.c_str(), &info), 0) << run.out << run.err;
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    EXPECT_EQ(std::system(Cat("tar -xzf ", file, " --strip-components=1 -C ", out).c_str()), 0);
    return run;
  }
  std::string Part(const char* name) { return ReadFile((folder_.path() / "out" / name).string()); }
  static std::vector<std::string> CausesIn(const UopctlRun& run) {
    std::vector<std::string> out;
    const json data = run.data();
    for (const json& cause : data["likely_causes"]) out.push_back(cause["id"].get<std::string>());
    return out;
  }

  // For a daemon.
  std::filesystem::path Folder() const {
    const auto path = folder_.path() / "d";
    std::filesystem::create_directories(path);
    return path;
  }

  TemporaryFolder folder_;
};

TEST_F(DiagnoseTest, CollectsAllThatAMaintainerAsksFor) {
  DaemonProcess daemon(Folder(), {"--device-memory-pattern=165"});
  const UopctlRun run = Diagnose(Cat("--address ", daemon.listen(), " --http ", daemon.http()));
  ASSERT_EQ(run.code, 0) << run.out << run.err;
  EXPECT_EQ(run.data()["missing"], json::object());
  const json parts = json::parse(Part("diagnose.json"), nullptr, false);
  ASSERT_TRUE(parts.is_object());
  for (const char* part : {"uopctl", "daemon", "status", "settings", "sessions", "devices",
                           "quarantine", "cache", "likely_causes"})
    EXPECT_TRUE(parts.contains(part)) << part;
  EXPECT_EQ(parts["status"]["pid"], daemon.pid());
  EXPECT_GT(parts["settings"]["settings"].size(), 50u);
  EXPECT_THAT(Part("metrics.txt"), HasSubstr("uopd_build_info"));
  EXPECT_THAT(Part("log.txt"), HasSubstr("msg=serving"));
  EXPECT_THAT(Part("summary.txt"), HasSubstr("state      ready"));
  EXPECT_THAT(Part("summary.txt"), HasSubstr("[test_settings]"));
  EXPECT_THAT(CausesIn(run), ::testing::ElementsAre("test_settings"));
}

TEST_F(DiagnoseTest, HoldsNothingThatClientsSentButNamesOfKernels) {
  DaemonProcess daemon(Folder(), {"--debug-level=7", "--log-level=debug"});
  Client client(daemon);
  ASSERT_TRUE(client.OpenSession().ok());
  // A constant, sizes, a request id, a title and a broken graph, which the log quotes.
  // The numbers have so many digits that no time and no count has the same ones by chance.
  constexpr char kRequest[] = "secret-request-1";
  constexpr int kSize = 1234567;
  constexpr float kFactor = 458771.0f / (1 << 20);  // 0.43751812
  grpc::ClientContext context;
  context.AddMetadata("x-request-id", kRequest);
  v1::RunRequest broken;
  broken.set_graph("secret-graph-2");
  v1::RunResponse answer;
  EXPECT_FALSE(client.stub().Run(&context, broken, &answer).ok());
  ASSERT_TRUE(
      client
          .Execute("", ScaleGraph(kSize, kFactor), {Returned(), Data(std::string(4 * kSize, '\1'))})
          .status.ok());
  v1::StartTuneRequest tune;
  tune.mutable_graph()->set_graph(ScaleGraph(kSize, kFactor));
  tune.mutable_options()->set_beam(1);
  tune.set_budget_candidates(2);
  tune.set_title("secret-title-3");
  grpc::ClientContext starts;
  v1::StartTuneResponse started;
  ASSERT_TRUE(client.stub().StartTune(&starts, tune, &started).ok());
  EXPECT_THAT(daemon.Log(), HasSubstr(kRequest));
  EXPECT_THAT(daemon.Log(), HasSubstr("0.437518"));

  const UopctlRun run = Diagnose(Cat("--address ", daemon.listen()));
  ASSERT_EQ(run.code, 0) << run.out << run.err;
  const std::string all = Part("diagnose.json") + Part("summary.txt") + Part("log.txt");
  EXPECT_THAT(all, HasSubstr("INVALID_ARGUMENT")) << "the failure itself is told";
  for (const char* secret : {kRequest, "secret-graph-2", "secret-title-3", "0.437518", "1234567"})
    EXPECT_THAT(all, Not(HasSubstr(secret)));
  EXPECT_THAT(all, Not(HasSubstr(client.session())));
}

TEST_F(DiagnoseTest, NamesWhatIsWrong) {
  // The cache of a newer version is left alone, so this daemon has none on disk; and a device is
  // not there.
  DaemonProcess daemon(Folder(), {"--device-list=CPU,CUDA:7", "--cache-level=0"});
  const UopctlRun run = Diagnose(Cat("--address ", daemon.listen(), " --timeout 60"));
  EXPECT_EQ(run.code, 0) << run.out;
  EXPECT_THAT(CausesIn(run), Contains("device_not_ready"));
  EXPECT_THAT(CausesIn(run), Contains("cache_memory"));
  EXPECT_THAT(CausesIn(run), Contains("no_metrics"));  // the port is not the default one
  EXPECT_THAT(run.data()["missing"]["metrics"].get<std::string>(), HasSubstr("UNAVAILABLE"));
}

TEST_F(DiagnoseTest, ADaemonThatIsAwayIsACauseToo) {
  const UopctlRun run = Diagnose("--address 127.0.0.1:9");
  EXPECT_EQ(run.code, 3) << run.out;
  EXPECT_THAT(CausesIn(run), Contains("unreachable"));
  EXPECT_THAT(Part("summary.txt"), HasSubstr("the daemon does not answer"));
  EXPECT_EQ(run.error()["kind"], "unreachable");
}

TEST_F(DiagnoseTest, OthersThanOperatorsGetWhatTheyMayKnow) {
  const std::string tokens = (folder_.path() / "tokens").string(),
                    bob = (folder_.path() / "bob").string();
  std::ofstream(tokens) << "alice " << HashBytes("a").Hex() << "\nbob " << HashBytes("b").Hex()
                        << "\n";
  std::ofstream(bob) << "b";
  DaemonProcess daemon(Folder(), {"--server-token-file=" + tokens, "--server-operators=alice"});
  const UopctlRun run = Diagnose(Cat("--address ", daemon.listen(), " --token-file ", bob));
  EXPECT_EQ(run.code, 4) << run.out;
  const json parts = json::parse(Part("diagnose.json"), nullptr, false);
  EXPECT_TRUE(parts.contains("devices"));
  for (const char* part : {"status", "sessions", "settings", "quarantine", "log"})
    EXPECT_THAT(parts["missing"].value(part, ""), HasSubstr("PERMISSION_DENIED")) << part;
}

}  // namespace
}  // namespace uopd::e2e
