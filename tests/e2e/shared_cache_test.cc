// SPDX-License-Identifier: MIT
// Daemons that share a data folder: what one of them has compiled, or compiles now, no other one
// compiles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "tests/e2e/client.h"
#include "tests/e2e/compilers.h"
#include "tests/e2e/graphs.h"

namespace uopd::e2e {
namespace {

constexpr char kCompiledInAll[] = "uopd_kernels_compiled_total";
constexpr int64_t kLeaseMs = 200;

v1::PrepareResponse PrepareAt(Client& client, const std::string& graph, uint32_t cache_level) {
  v1::PrepareRequest request;
  request.set_session_id(client.session());
  request.set_graph(graph);
  request.mutable_options()->set_cache_level(cache_level);
  grpc::ClientContext context;
  v1::PrepareResponse response;
  const grpc::Status status = client.stub().Prepare(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

class SharedCacheTest : public ::testing::Test {
 protected:
  // Another daemon on the data folder of folder_; with a folder of its own for the rest.
  static std::vector<std::string> Flags(const TemporaryFolder& shared) {
    return {"--data-dir=" + (shared.path() / "data").string(),
            "--compile-fast-tier=false",  // each kernel is compiled once
            "--compile-warm-up=false",    // a busy compiler works for a request
            "--compile-lease-ms=" + std::to_string(kLeaseMs)};
  }
  static double Compiled(const DaemonProcess& daemon) {
    return std::max(0.0, daemon.Metric(kCompiledInAll));
  }

  TemporaryFolder folder_, other_;
};

// The compiler of one kernel is stopped in the middle, so that the kernel takes several lease times
// (the daemon gives up the compiler and starts another one).
TEST_F(SharedCacheTest, OneCompileForTwoDaemonsAndSixteenClients) {
  constexpr int kClients = 16, kKernels = 2;
  DaemonProcess first(folder_.path(), Flags(folder_)), second(other_.path(), Flags(folder_));
  const std::string slow = SlowToCompile(1, 80), quick = SlowToCompile(2, 10);
  std::vector<double> compile_us(kClients);
  std::vector<std::jthread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      Client client(i % 2 == 0 ? first : second);
      ASSERT_TRUE(client.OpenSession().ok());
      for (const std::string& graph : {slow, quick}) {
        grpc::Status status;
        const auto response = client.Prepare(graph, &status);
        EXPECT_TRUE(status.ok()) << status.error_message();
        compile_us[static_cast<size_t>(i)] += response.timings().compile_us();
      }
    });
  }
  HitCompiler({first.pid(), second.pid()}, SIGSTOP);
  threads.clear();  // joins
  EXPECT_EQ(Compiled(first) + Compiled(second), kKernels) << first.Log() << second.Log();
  EXPECT_GT(*std::max_element(compile_us.begin(), compile_us.end()), 3 * kLeaseMs * 1000);
}

TEST_F(SharedCacheTest, ADaemonThatDiesInTheMiddleCostsALease) {
  DaemonProcess first(folder_.path(), Flags(folder_)), second(other_.path(), Flags(folder_));
  const std::string graph = SlowToCompile(3, 80);
  grpc::Status cut, status;
  Client dies(first), lives(second);
  ASSERT_TRUE(dies.OpenSession().ok());
  ASSERT_TRUE(lives.OpenSession().ok());
  std::thread call([&] { dies.Prepare(graph, &cut); });
  ASSERT_EQ(HitCompiler({first.pid()}, SIGSTOP), first.pid());  // so the lease is taken
  first.Signal(SIGKILL);
  call.join();
  EXPECT_EQ(cut.error_code(), grpc::StatusCode::UNAVAILABLE);
  lives.Prepare(graph, &status);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(Compiled(second), 1);
}

TEST_F(SharedCacheTest, TheCacheLevelSaysWhatTheDiskIsUsedFor) {
  const std::string kept = SlowToCompile(4, 10), unkept = SlowToCompile(5, 10);
  {
    DaemonProcess daemon(folder_.path(), Flags(folder_));
    Client client(daemon);
    ASSERT_TRUE(client.OpenSession().ok());
    PrepareAt(client, kept, 2);
    for (uint32_t level : {0, 1}) PrepareAt(client, unkept, level);
    EXPECT_EQ(Compiled(daemon), 2);  // the second level finds the kernel in memory
    daemon.Signal(SIGTERM);
    daemon.Wait();
  }
  DaemonProcess daemon(folder_.path(), Flags(folder_));
  Client client(daemon);
  ASSERT_TRUE(client.OpenSession().ok());
  EXPECT_EQ(PrepareAt(client, kept, 0).cache().kernels_compiled(), 1u);  // does not look
  EXPECT_EQ(PrepareAt(client, unkept, 2).cache().kernels_compiled(), 1u);
  v1::PrepareRequest request;
  request.set_session_id(client.session());
  request.set_graph(kept);
  request.mutable_options()->set_cache_level(3);
  grpc::ClientContext context;
  v1::PrepareResponse response;
  const grpc::Status status = client.stub().Prepare(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "cache_level (3) is outside 0 to 2");
}

TEST_F(SharedCacheTest, ADaemonOfLevel0LeavesTheFolderAlone) {
  std::vector<std::string> flags = Flags(folder_);
  flags.push_back("--cache-level=0");
  DaemonProcess daemon(other_.path(), flags);
  ExpectServes(daemon);
  EXPECT_NE(daemon.Http("/readyz").find("200 OK"), std::string::npos);
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path() / "data")) {
    EXPECT_NE(entry.path().extension(), ".sqlite");
  }
}

}  // namespace
}  // namespace uopd::e2e
