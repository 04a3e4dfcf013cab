// SPDX-License-Identifier: MIT
// Tuning as a client sees it: answers come at once, better kernels come later, and each kernel is
// tuned only once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"
#include "tests/support/processes.h"
#include "tests/support/redis/redis_process.h"
#include "tests/support/services/service_process.h"

namespace uopd::e2e {
namespace {

constexpr char kTuned[] = "uopd_tune_kernels_total{result=\"tuned\"}";
constexpr char kFound[] = "uopd_tune_kernels_total{result=\"found\"}";
constexpr char kMeasured[] = "uopd_tune_candidates_total{outcome=\"measured\"}";
constexpr int64_t kSize = 96;

// Runs PairsGraph(kSize) with a beam; the sums are of integers, so every order gives the same.
v1::RunResponse RunPairs(Client& client, uint32_t beam, bool ignore_cache = false) {
  std::vector<float> x(kSize), y(kSize), want(kSize, 0);
  for (int64_t i = 0; i < kSize; ++i) {
    x[static_cast<size_t>(i)] = static_cast<float>(i * 7 % 50);
    y[static_cast<size_t>(i)] = static_cast<float>(i * 13 % 60);
  }
  for (size_t i = 0; i < want.size(); ++i) {
    for (float v : y) want[i] += std::max(x[i], v);
  }
  v1::RunRequest request;
  request.set_graph(PairsGraph(kSize));
  *request.add_arguments() = Returned();
  *request.add_arguments() = Data(Bytes(x));
  *request.add_arguments() = Data(Bytes(y));
  request.mutable_options()->set_beam(beam);
  request.mutable_options()->set_ignore_beam_cache(ignore_cache);
  v1::RunResponse response;
  grpc::ClientContext context;
  const grpc::Status status = client.stub().Run(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  if (!status.ok()) return response;
  EXPECT_EQ(Floats(response.data(0)), want);
  return response;
}

// Runs until the one kernel is tuned; every answer on the way is right.
bool RunUntilTuned(Client& client, uint32_t beam) {
  bool tuned = false;
  (void)test::Eventually([&] {
    tuned = RunPairs(client, beam).cache().kernels_tuned() == 1;
    return tuned || ::testing::Test::HasFailure();
  });
  return tuned && !::testing::Test::HasFailure();
}

bool HasLogged(const DaemonProcess& daemon, const char* text) {
  return daemon.Log().find(text) != std::string::npos;
}

class TuningTest : public ::testing::Test {
 protected:
  // Few candidates: the tests are about what happens with the winner.
  const std::vector<std::string> flags_ = {"--tune-candidates=12"};
  TemporaryFolder folder_;
};

TEST_F(TuningTest, AnswersAtOnceSwapsLaterAndRemembers) {
  {
    DaemonProcess daemon(folder_.path(), flags_);
    Client client(daemon);
    const v1::RunResponse cold = RunPairs(client, 2);
    EXPECT_EQ(cold.cache().kernels_tuned(), 0u);
    EXPECT_EQ(cold.cache().kernels_compiled(), 1u);
    ASSERT_TRUE(RunUntilTuned(client, 2)) << daemon.Log();
    // What is counted and logged follows the swap.
    EXPECT_TRUE(test::Eventually([&] { return HasLogged(daemon, "msg=\"kernel tuned\""); }))
        << daemon.Log();
    EXPECT_EQ(daemon.Metric(kTuned), 1);
    EXPECT_GE(daemon.Metric(kMeasured), 2);
    EXPECT_EQ(daemon.Metric("uopd_tune_duration_seconds_count"), 1);
    // Without a beam nobody asked for it.
    EXPECT_EQ(RunPairs(client, 0).cache().kernels_tuned(), 0u);
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0);
  }
  DaemonProcess daemon(folder_.path(), flags_);
  Client client(daemon);
  EXPECT_EQ(RunPairs(client, 2).cache().kernels_tuned(), 1u);
  EXPECT_EQ(daemon.Metric("uopd_kernels_compiled_total"), 0);
  EXPECT_EQ(daemon.Metric(kMeasured), -1);
  // Another beam width gives another record. A request that ignores the beam cache tunes again.
  EXPECT_EQ(RunPairs(client, 3).cache().kernels_tuned(), 0u);
  EXPECT_EQ(RunPairs(client, 2, true).cache().kernels_tuned(), 0u);
}

TEST_F(TuningTest, TwoDaemonsTuneOnce) {
  TemporaryFolder other;
  std::vector<std::string> flags = flags_;
  flags.push_back("--data-dir=" + (folder_.path() / "data").string());
  DaemonProcess first(folder_.path(), flags_), second(other.path(), flags);
  Client one(first), two(second);
  RunPairs(one, 2), RunPairs(two, 2);
  EXPECT_TRUE(RunUntilTuned(one, 2)) << first.Log();
  EXPECT_TRUE(RunUntilTuned(two, 2)) << second.Log();
  const auto count = [&](const char* series) {
    return std::max(0.0, first.Metric(series)) + std::max(0.0, second.Metric(series));
  };
  EXPECT_TRUE(test::Eventually([&] { return count(kTuned) == 1; })) << first.Log() << second.Log();
  EXPECT_TRUE(test::Eventually([&] { return count(kFound) == 1; })) << first.Log() << second.Log();
}

// Daemons with disks of their own that share a server.
TEST_F(TuningTest, TwoDaemonsOfAClusterTuneOnce) {
  const auto redis = test::RedisProcess::Start();
  ASSERT_TRUE(redis.ok()) << redis.status();
  const std::string key = (folder_.path() / "key").string();
  std::ofstream(key) << std::string(64, 'c');
  std::filesystem::permissions(key, std::filesystem::perms::owner_read);
  TemporaryFolder other;
  std::vector<std::string> flags = flags_;
  flags.insert(flags.end(), {"--cache-cluster=redis+unix://" + (*redis)->socket(),
                             "--cache-cluster-sign-key=" + key, "--cache-cluster-budget-ms=2s",
                             "--tune-settle-ms=100ms"});
  DaemonProcess first(folder_.path(), flags), second(other.path(), flags);
  Client one(first), two(second);
  RunPairs(one, 2), RunPairs(two, 2);
  EXPECT_TRUE(RunUntilTuned(one, 2)) << first.Log();
  EXPECT_TRUE(RunUntilTuned(two, 2)) << second.Log();
  const auto count = [&](const char* series) {
    return std::max(0.0, first.Metric(series)) + std::max(0.0, second.Metric(series));
  };
  EXPECT_TRUE(test::Eventually([&] { return count(kTuned) + count(kFound) == 2; }))
      << first.Log() << second.Log();
  EXPECT_EQ(count(kTuned), 1) << first.Log() << second.Log();
}

// A cache of blobs grants no leases and announces nothing: a winner that is there is found, and
// each machine that finds none searches at once, without waiting for the others.
TEST_F(TuningTest, ADaemonFindsTheWinnerOfAnotherInACacheOfBlobs) {
  if (!test::HasServices()) GTEST_SKIP() << "UOPD_SERVICES names no server of BuildGrid";
  const auto server = test::ServiceProcess::StartBuildGrid();
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string key = (folder_.path() / "key").string();
  std::ofstream(key) << std::string(64, 'c');
  std::filesystem::permissions(key, std::filesystem::perms::owner_read);
  TemporaryFolder other;
  std::vector<std::string> flags = flags_;
  flags.insert(
      flags.end(),
      {"--cache-cluster=reapi://127.0.0.1:" + std::to_string((*server)->port()) + "/uopd",
       "--cache-cluster-sign-key=" + key, "--cache-cluster-budget-ms=2s", "--tune-settle-ms=24h"});
  const DaemonProcess first(folder_.path(), flags);
  Client one(first);
  EXPECT_TRUE(RunUntilTuned(one, 2)) << first.Log();
  EXPECT_TRUE(test::Eventually([&] {
    return first.Metric(kTuned) == 1 && first.Metric("uopd_cluster_queue_bytes") == 0;
  })) << first.Log();
  const DaemonProcess second(other.path(), flags);
  Client two(second);
  EXPECT_TRUE(RunUntilTuned(two, 2)) << second.Log();
  EXPECT_LE(second.Metric(kTuned), 0) << second.Log();
  EXPECT_LE(second.Metric(kMeasured), 0) << second.Log();
}

TEST_F(TuningTest, TheSettingIsForRequestsThatNameNoBeam) {
  DaemonProcess daemon(folder_.path(), {"--tune-candidates=12", "--tune-beam=2"});
  Client client(daemon);
  EXPECT_TRUE(RunUntilTuned(client, 0)) << daemon.Log();
  EXPECT_EQ(RunPairs(client, 2).cache().kernels_tuned(), 1u);  // the same program
  EXPECT_TRUE(test::Eventually([&] { return daemon.Metric(kTuned) == 1; })) << daemon.Log();
}

TEST_F(TuningTest, TerminationEndsTheSearchAndItsWorkers) {
  DaemonProcess daemon(folder_.path(),
                       {"--tune-candidates=100000", "--server-drain-timeout-ms=10m"});
  Client client(daemon);
  RunPairs(client, 64);
  ASSERT_TRUE(test::Eventually([&] { return daemon.Metric(kMeasured) >= 1; })) << daemon.Log();
  const auto processes = test::Descendants(daemon.pid());
  daemon.Signal(SIGTERM);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(daemon.Wait(), 0);
  // Much less than server.drain_timeout_ms and than the search takes.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(2));
  for (const test::Process& process : processes) {
    EXPECT_FALSE(test::IsAlive(process.pid)) << process.name << "; log:\n" << daemon.Log();
  }
}

TEST_F(TuningTest, OptionsThatMakeNoSenseAreRefused) {
  DaemonProcess daemon(folder_.path());
  Client client(daemon);
  v1::RunRequest request;
  request.set_graph(ScaleGraph(3, 2.5));
  v1::RunResponse response;
  for (const uint32_t beam : {65u, UINT32_MAX}) {
    request.mutable_options()->set_beam(beam);
    grpc::ClientContext context;
    const grpc::Status status = client.stub().Run(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  }
  request.mutable_options()->set_beam(2);
  request.mutable_options()->set_noopt(true);
  grpc::ClientContext context;
  EXPECT_EQ(client.stub().Run(&context, request, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace uopd::e2e
