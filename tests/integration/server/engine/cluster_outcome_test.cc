// SPDX-License-Identifier: MIT
// What came from the server of a cluster is told apart from what lay on this machine.
#include <gtest/gtest.h>

#include "server/engine/compile/kernel/kernel_loader.h"
#include "tests/unit/cache/cluster/key_files.h"
#include "tests/unit/cache/cluster/sharing_store.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

class ClusterOutcomeTest : public cache::KeyFiles {
 protected:
  std::unique_ptr<cache::Store> Open() {
    return cache::SharingStore(server_, {.sign = hmac_, .trusted = {hmac_}});
  }
  CacheOutcome Prepare(cache::Store& store) {
    CompileService service({}, graph_compiler_, store, devices_, task_pool_);
    RequestContext request;
    const auto program = WaitForProgram(service, request, {"", graph_}, {});
    EXPECT_TRUE(program.ok()) << program.status();
    return request.cache;
  }

  const std::string graph_ = ScaleGraph(4, 2);
  const std::shared_ptr<cache::FakeServerState> server_ =
      std::make_shared<cache::FakeServerState>();
  FakeCompiler graph_compiler_;
  DeviceSet devices_{NullRegistry()};
  TaskPool task_pool_{2, SIZE_MAX};
};

TEST_F(ClusterOutcomeTest, IsCountedApartFromTheDisk) {
  const auto one = Open(), other = Open();
  CacheOutcome outcome = Prepare(*one);
  EXPECT_EQ(outcome.schedule, CacheResult::kMiss);
  EXPECT_EQ(outcome.kernels_compiled, 1u);
  ASSERT_TRUE(one->Flush().ok());

  outcome = Prepare(*other);
  EXPECT_EQ(outcome.schedule, CacheResult::kCluster);
  EXPECT_EQ(outcome.kernels_cluster, 1u);
  EXPECT_EQ(outcome.kernels_disk, 0u);
  EXPECT_EQ(outcome.kernels_compiled, 0u);

  outcome = Prepare(*other);  // it is its own now
  EXPECT_EQ(outcome.schedule, CacheResult::kDisk);
  EXPECT_EQ(outcome.kernels_cluster, 0u);
  EXPECT_EQ(outcome.kernels_disk, 1u);
}

// Where a draft would do, the optimised kernel of another machine is taken, too.
TEST_F(ClusterOutcomeTest, IsKnownWhereADraftIsWanted) {
  const auto one = Open(), other = Open();
  Prepare(*one);
  ASSERT_TRUE(one->Flush().ok());
  ir::UOpContext ctx;
  const auto sink = ir::Decode(ctx, graph_, ir::Level::kTensor);
  const auto schedule = schedule::MakeSchedule(ctx, *sink, {.default_device = "NULL:0"});
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  KernelCompiler compiler(nullptr, std::chrono::seconds(10));
  KernelLoader loader(graph_compiler_, compiler, *other, {.owner = "test"});
  const std::vector<int64_t> capacities = {16, 16};
  const CompileOptions options;
  PhaseTimings timings;
  const auto kernel = loader.Get(
      {},
      {schedule->items.at(0).graph, *devices_.Get(""), options, nullptr, capacities, Tier::kDraft},
      &timings);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(kernel->from, CacheResult::kCluster);
  EXPECT_FALSE(kernel->kernel->draft);
}

}  // namespace
}  // namespace uopd::engine
