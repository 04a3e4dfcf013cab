// SPDX-License-Identifier: MIT
// Start, drain, kill and restart: what the daemon promises about its process and its data folder.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <thread>

#include "core/base/digest.h"
#include "core/base/unique_fd.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"

namespace uopd::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kCompiled[] = "uopd_kernels_compiled_total";
constexpr char kSchedules[] = "uopd_schedules_total";

// Runs the graphs 0, 1 and 2 by digest or graph; every answer must be right.
void RunThree(const DaemonProcess& daemon, bool by_digest) {
  Client client(daemon);
  ASSERT_TRUE(client.OpenSession().ok());
  for (int i = 0; i < 3; ++i) {
    const std::string graph = ScaleGraph(64, i + 2);
    const std::string digest(HashBytes(graph).view());
    const Executed run = client.Execute(digest, by_digest ? "" : graph,
                                        {Returned(), Data(Bytes(std::vector<float>(64, 1.5f)))});
    ASSERT_TRUE(run.status.ok()) << run.status.error_message();
    EXPECT_THAT(Floats(run.response.data(0)), Each(1.5f * static_cast<float>(i + 2)));
  }
}

// Every file of the cache; the largest comes first.
std::vector<fs::path> CacheFiles(const fs::path& data) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::recursive_directory_iterator(data)) {
    if (entry.is_regular_file() && entry.file_size() > 0) out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end(),
            [](const auto& a, const auto& b) { return fs::file_size(a) > fs::file_size(b); });
  return out;
}

class LifecycleTest : public ::testing::Test {
 protected:
  // A data folder that holds three compiled graphs, left by an orderly exit.
  void Fill() {
    DaemonProcess daemon(folder_.path());
    RunThree(daemon, false);
    EXPECT_EQ(daemon.Metric(kCompiled), 3);
    daemon.Signal(SIGTERM);
    ASSERT_EQ(daemon.Wait(), 0);
  }
  fs::path data() const { return folder_.path() / "data"; }

  TemporaryFolder folder_;
};

TEST_F(LifecycleTest, TheDaemonEndsWithItsOwner) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  UniqueFd watched(ends[0]), held(ends[1]);
  const UniqueFd given(dup(watched.get()));  // open in the daemon
  DaemonProcess daemon(folder_.path(), {"--server-owner-fd=" + std::to_string(given.get())});
  ExpectServes(daemon);
  ExpectServes(daemon);
  held.Reset();
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_FALSE(fs::exists(folder_.path() / "ready.json"));
  EXPECT_THAT(daemon.Log(), HasSubstr("the process that the daemon belongs to has ended"));
}

TEST_F(LifecycleTest, ADaemonOfAnOwnerThatIsNoDescriptorDoesNotStart) {
  const std::string command =
      UOPD_BINARY " --listen=127.0.0.1:0 --http-listen= --server-owner-fd=987 2>&1";
  FILE* const out = popen(command.c_str(), "r");
  ASSERT_NE(out, nullptr);
  std::string said(1000, '\0');
  said.resize(fread(said.data(), 1, said.size(), out));
  EXPECT_EQ(WEXITSTATUS(pclose(out)), 2);
  EXPECT_THAT(said, HasSubstr("server.owner_fd (987)"));
}

TEST_F(LifecycleTest, PagesSayWhatTheDaemonDoes) {
  DaemonProcess daemon(folder_.path());
  ExpectServes(daemon);
  EXPECT_THAT(daemon.Http("/readyz"), HasSubstr(" 200 "));
  EXPECT_THAT(daemon.Http("/healthz"), HasSubstr(" 200 "));
  const std::string metrics = daemon.Http("/metrics");
  for (const char* name :
       {"uopd_sessions 1", "uopd_kernels_compiled_total 1",
        "uopd_cache_requests_total{store=\"kernel\",result=\"miss\"} 1",
        "uopd_cache_state{store=\"kernel\",state=\"ok\"} 1",
        "uopd_rpc_duration_seconds_count{method=\"Execute\",code=\"OK\"} 1",
        "uopd_kernel_duration_seconds_count{device=\"CPU:0\"} 1", "uopd_rpc_in_flight 0"}) {
    EXPECT_NE(metrics.find(name), std::string::npos) << name;
  }
  const std::string ready = ReadFile(folder_.path() / "ready.json");
  EXPECT_THAT(ready, StartsWith("{\"pid\":" + std::to_string(daemon.pid()) + ","));
}

TEST_F(LifecycleTest, TheReadyFileReplacesNothingButFiles) {
  const fs::path place = folder_.path() / "planted", victim = folder_.path() / "victim";
  std::ofstream(victim) << "mine";
  fs::create_symlink(victim, place);
  const auto started = test::Daemon::Start({.program = UOPD_BINARY,
                                            .folder = folder_.path().string(),
                                            .flags = {"--ready-file=" + place.string()}});
  EXPECT_FALSE(started.ok());
  EXPECT_TRUE(fs::is_symlink(place));
  EXPECT_EQ(ReadFile(victim), "mine");
}

TEST_F(LifecycleTest, TerminationFinishesWhatRuns) {
  DaemonProcess daemon(folder_.path());
  Client client(daemon);
  ASSERT_TRUE(client.OpenSession().ok());
  const int64_t n = 1 << 16;
  const std::string graph = PairsGraph(n);
  client.Prepare(graph);
  grpc::Status running;
  const double before =
      daemon.Metric("uopd_rpc_duration_seconds_count{method=\"Execute\",code=\"OK\"}");
  std::thread call([&] {
    const std::string ones = Bytes(std::vector<float>(n, 1));
    running = client.Execute("", graph, {Buffer(1), Data(ones), Data(ones)}).status;
  });
  while (daemon.Metric("uopd_rpc_in_flight") != 1) {
  }
  EXPECT_EQ(before, -1);
  daemon.Signal(SIGTERM);
  // New work is refused while the old work continues.
  Client late(daemon);
  grpc::Status refused;
  do {
    refused = late.OpenSession();
  } while (refused.ok());
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  call.join();
  EXPECT_TRUE(running.ok()) << running.error_message();
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_FALSE(fs::exists(folder_.path() / "ready.json"));
}

TEST_F(LifecycleTest, AnIdlePipelineDoesNotHoldUpTheExit) {
  DaemonProcess daemon(folder_.path());
  Client client(daemon);
  grpc::ClientContext context;
  auto stream = client.stub().Pipeline(&context);
  ExpectServes(daemon);
  daemon.Signal(SIGINT);
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_FALSE(stream->Finish().ok());
}

TEST_F(LifecycleTest, ARestartCompilesNothing) {
  Fill();
  DaemonProcess daemon(folder_.path());
  RunThree(daemon, true);
  EXPECT_EQ(daemon.Metric(kCompiled), 0);
  EXPECT_EQ(daemon.Metric(kSchedules), 0);
  EXPECT_EQ(daemon.Metric("uopd_cache_requests_total{store=\"kernel\",result=\"hit\"}"), 3);
}

TEST_F(LifecycleTest, AKilledDaemonLosesNoKernelsThatWereWritten) {
  {
    DaemonProcess daemon(folder_.path());
    RunThree(daemon, false);
    // Soon, and without any further call (docs/operations/cache.md).
    ASSERT_TRUE(test::Eventually([&] { return RowsOf(daemon, "kernel") >= 3; }));
    daemon.Signal(SIGKILL);
    EXPECT_EQ(daemon.Wait(), -SIGKILL);
  }
  DaemonProcess daemon(folder_.path());
  RunThree(daemon, false);
  EXPECT_EQ(daemon.Metric(kCompiled), 0);
}

TEST_F(LifecycleTest, ADamagedCacheFileHeals) {
  const std::vector<std::pair<const char*, std::function<void(const fs::path&)>>> damages = {
      {"cut in half", [](const fs::path& p) { fs::resize_file(p, fs::file_size(p) / 2); }},
      {"empty", [](const fs::path& p) { fs::resize_file(p, 0); }},
      {"noise",
       [](const fs::path& p) {
         std::string noise(fs::file_size(p), '\0');
         for (size_t i = 0; i < noise.size(); ++i)
           noise[i] = static_cast<char>(i * 2654435761u >> 13);
         std::ofstream(p, std::ios::binary) << noise;
       }},
      {"one page of noise",
       [](const fs::path& p) {
         std::fstream out(p, std::ios::binary | std::ios::in | std::ios::out);
         out.seekp(static_cast<std::streamoff>(fs::file_size(p) / 2));
         out << std::string(4096, '\x5a');
       }},
  };
  for (const auto& [name, damage] : damages) {
    SCOPED_TRACE(name);
    fs::remove_all(data());
    Fill();
    damage(CacheFiles(data()).front());
    {
      DaemonProcess daemon(folder_.path());
      RunThree(daemon, false);
      daemon.Signal(SIGTERM);
      EXPECT_EQ(daemon.Wait(), 0);
    }
    DaemonProcess healed(folder_.path());
    RunThree(healed, false);
    EXPECT_EQ(healed.Metric(kCompiled), 0);
  }
}

// Writes the version of a cache file into its header, as a newer daemon does.
void SetVersion(const fs::path& file, char version) {
  constexpr std::streamoff kUserVersion = 60;  // four bytes, the last one is the least
  std::fstream out(file, std::ios::binary | std::ios::in | std::ios::out);
  out.seekp(kUserVersion + 3);
  out.put(version);
}

// An older daemon on the data folder of a newer one: it serves, keeps its own cache, and leaves the
// other as it is.
TEST_F(LifecycleTest, ARollbackOfAVersionServes) {
  Fill();
  const fs::path file = data() / "uopd-cache.sqlite";
  SetVersion(file, 5);
  const std::string before = ReadFile(file.string());
  for (const int compiled : {3, 0}) {  // its own cache begins empty, and is found again
    DaemonProcess daemon(folder_.path());
    RunThree(daemon, false);
    EXPECT_EQ(daemon.Metric(kCompiled), compiled);
    EXPECT_THAT(daemon.Http("/readyz"),
                AllOf(HasSubstr(" 200 "),
                      HasSubstr("\r\n\r\ndegraded\nthe cache is of a newer version: ")));
    EXPECT_EQ(daemon.Metric("uopd_ready{reason=\"ready\"}"), 1);
    EXPECT_EQ(daemon.Metric("uopd_ready{reason=\"degraded\"}"), 1);
    EXPECT_EQ(daemon.Metric("uopd_ready{reason=\"cache_newer\"}"), 1);
    EXPECT_THAT(daemon.Log(), HasSubstr("level=warn msg=cache state=ok"));
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0);
    EXPECT_TRUE(ReadFile(file.string()) == before);
  }
  SetVersion(file, 4);  // what the newer daemon reads
  DaemonProcess newer(folder_.path());
  RunThree(newer, false);
  EXPECT_EQ(newer.Metric(kCompiled), 0);
  EXPECT_THAT(newer.Http("/readyz"), ::testing::EndsWith("\r\n\r\nready\n"));
}

TEST_F(LifecycleTest, AReadOnlyCacheIsUsedAndNotWritten) {
  Fill();
  DaemonProcess daemon(folder_.path(), {"--cache-read-only"});
  RunThree(daemon, false);
  EXPECT_EQ(daemon.Metric(kCompiled), 0);
  ExpectServes(daemon);  // a kernel that the cache does not have
  EXPECT_EQ(daemon.Metric(kCompiled), 1);
  EXPECT_EQ(daemon.Metric("uopd_cache_state{store=\"kernel\",state=\"read_only\"}"), 1);
}

TEST_F(LifecycleTest, ADataFolderThatCannotBeMadeLeavesMemory) {
  std::ofstream(folder_.path() / "file") << "in the way";
  DaemonProcess daemon(folder_.path(), {"--data-dir=" + (folder_.path() / "file/data").string()});
  ExpectServes(daemon);
  EXPECT_EQ(daemon.Metric("uopd_cache_state{store=\"kernel\",state=\"memory\"}"), 1);
  EXPECT_THAT(daemon.Http("/readyz"), AllOf(HasSubstr(" 200 "), HasSubstr("degraded\n")));
  EXPECT_EQ(daemon.Metric("uopd_ready{reason=\"cache_memory\"}"), 1);
}

TEST_F(LifecycleTest, TwoDaemonsShareOneCompile) {
  TemporaryFolder other;
  DaemonProcess first(folder_.path());
  DaemonProcess second(other.path(), {"--data-dir=" + data().string()});
  std::thread one([&] { RunThree(first, false); });
  RunThree(second, false);
  one.join();
  EXPECT_EQ(first.Metric(kCompiled) + second.Metric(kCompiled), 3);
}

TEST_F(LifecycleTest, OneCompileForManyClients) {
  DaemonProcess daemon(folder_.path());
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) clients.emplace_back([&] { RunThree(daemon, false); });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(daemon.Metric(kCompiled), 3);
  EXPECT_EQ(daemon.Metric(kSchedules), 3);
}

TEST_F(LifecycleTest, ListensOnAUnixSocket) {
  DaemonProcess daemon(folder_.path(), {"--listen=unix:" + (folder_.path() / "sock").string()});
  EXPECT_THAT(daemon.listen(), StartsWith("unix:"));
  ExpectServes(daemon);
}

// The output of `uopd` with these arguments, and its exit status at the end.
std::string OutputOf(const std::string& arguments) {
  FILE* pipe = popen((std::string(UOPD_BINARY) + " " + arguments + " 2>&1").c_str(), "r");
  std::string out;
  for (int c; (c = fgetc(pipe)) != EOF;) out += static_cast<char>(c);
  return out + "exit " + std::to_string(WEXITSTATUS(pclose(pipe)));
}

TEST_F(LifecycleTest, TheCommandLineAnswers) {
  EXPECT_THAT(OutputOf("--version"), ::testing::MatchesRegex("uopd [0-9.]+\nexit 0"));
  EXPECT_THAT(OutputOf("--print-config-docs"), HasSubstr("`server.allow_insecure_remote`"));
  EXPECT_THAT(OutputOf("--no-such-flag"), HasSubstr("exit 2"));
  const std::string config = (folder_.path() / "c.toml").string();
  std::ofstream(config) << "[log]\nlevel = \"loud\"\n";
  EXPECT_THAT(OutputOf("--config " + config), HasSubstr("exit 2"));
  std::ofstream(config) << "[log\n";
  EXPECT_THAT(OutputOf("--config " + config), HasSubstr("c.toml:1:"));
}

TEST_F(LifecycleTest, OtherMachinesAreKeptOutUnlessPermitted) {
  const std::string folder = " --data-dir " + LifecycleTest::data().string();
  EXPECT_THAT(OutputOf("--listen 0.0.0.0:0" + folder), HasSubstr("server.allow_insecure_remote"));
  EXPECT_THAT(OutputOf("--listen 127.0.0.1:0 --http-listen 0.0.0.0:0" + folder),
              HasSubstr("server.allow_remote_http"));
  // What permits HTTP does not permit gRPC.
  EXPECT_THAT(OutputOf("--listen 0.0.0.0:0 --server-allow-remote-http" + folder),
              HasSubstr("server.allow_insecure_remote"));
  {
    DaemonProcess watched(folder_.path(),
                          {"--http-listen=0.0.0.0:0", "--server-allow-remote-http"});
    EXPECT_THAT(watched.http(), StartsWith("0.0.0.0:"));
    EXPECT_THAT(watched.Http("/metrics"), HasSubstr("uopd_build_info"));
    ExpectServes(watched);
  }
  DaemonProcess daemon(folder_.path(), {"--listen=0.0.0.0:0", "--server-allow-insecure-remote"});
  ExpectServes(daemon);
}

}  // namespace
}  // namespace uopd::e2e
