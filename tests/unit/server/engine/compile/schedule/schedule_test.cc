// SPDX-License-Identifier: MIT
#include "server/engine/compile/schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using testing::SizeIs;

std::unique_ptr<devices::Registry> NullRegistryOf(const char* names) {
  devices::RegistryOptions options;
  options.devices = names;
  return *devices::Registry::Create(options);
}

class SchedulesTest : public testing::Test {
 protected:
  // The graph as the store gives it: without nodes.
  std::unique_ptr<Graph> Stored() { return Graph::Stored(bytes_, HashBytes(bytes_), {}); }
  absl::StatusOr<schedule::Schedule> Get(const CompileOptions& options = {}) {
    request_ = {};
    return Schedules(graph_compiler_, store_, devices_, nullptr).Get(request_, *Stored(), options);
  }
  cache::Key Key() {
    return ScheduleKey(HashBytes(bytes_), graph_compiler_, *OnlyScheduleTarget(devices_));
  }

  const std::string bytes_ = ScaleGraph(4, 2);
  FakeCompiler graph_compiler_;
  cache::Store store_{1 << 20};
  DeviceSet devices_{NullRegistryOf("NULL")};
  RequestContext request_;
};

TEST_F(SchedulesTest, IsMadeOnceAndThenInTheStore) {
  const auto made = Get();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(request_.cache.schedule, CacheResult::kMiss);
  EXPECT_GT(request_.timings[Phase::kSchedule], 0);
  const auto found = Get();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(request_.cache.schedule, CacheResult::kDisk);
  EXPECT_EQ(request_.timings[Phase::kSchedule], 0);
  EXPECT_EQ(found->Encode(), made->Encode());
  EXPECT_EQ(graph_compiler_.schedules, 1);
}

TEST_F(SchedulesTest, LiesUnderItsKey) {
  ASSERT_TRUE(Get().ok());
  EXPECT_EQ(Key().store(), "schedule");
  EXPECT_EQ(Key().semantic(), HashBytes(bytes_).view());
  EXPECT_TRUE(Key().environment().starts_with("fake default=NULL:0 threads="));
  EXPECT_TRUE(store_.Get(Key()).hit());
}

TEST_F(SchedulesTest, ALowerCacheLevelNeitherReadsNorWrites) {
  for (int level : {0, 1}) {
    ASSERT_TRUE(Get({.cache_level = level}).ok());
    EXPECT_EQ(request_.cache.schedule, CacheResult::kMiss);
    EXPECT_THAT(store_.List("schedule", 10), SizeIs(0));
  }
  ASSERT_TRUE(Get().ok());
  ASSERT_TRUE(Get({.cache_level = 1}).ok());
  EXPECT_EQ(request_.cache.schedule, CacheResult::kMiss);
  EXPECT_EQ(graph_compiler_.schedules, 4);
}

TEST_F(SchedulesTest, ADamagedValueIsReplaced) {
  const std::string right = Get()->Encode();
  ASSERT_TRUE(store_.Clear("schedule").ok());
  ASSERT_TRUE(store_.Put(Key(), "noise", 1).ok());
  const auto healed = Get();
  ASSERT_TRUE(healed.ok()) << healed.status();
  EXPECT_EQ(request_.cache.schedule, CacheResult::kMiss);
  EXPECT_EQ(store_.Get(Key()).entry.bytes, right);
}

// With one device nothing of a graph decides its key but its bytes.
TEST_F(SchedulesTest, AHitWithOneDeviceNeedsNoNodes) {
  ASSERT_TRUE(Get().ok());
  Schedules schedules(graph_compiler_, store_, devices_, nullptr);
  const auto graph = Stored();
  ASSERT_TRUE(schedules.Get(request_, *graph, {}).ok());
  EXPECT_FALSE(graph->sink());
  DeviceSet two(NullRegistryOf("NULL,NULL:1"));
  Schedules of_two(graph_compiler_, store_, two, nullptr);
  ASSERT_TRUE(of_two.Get(request_, *graph, {}).ok());
  EXPECT_TRUE(graph->sink());
}

TEST_F(SchedulesTest, NothingIsMadeForACallerThatIsGone) {
  Schedules schedules(graph_compiler_, store_, devices_, nullptr);
  request_.cancelled = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled(schedules.Get(request_, *Stored(), {}).status()));
  EXPECT_EQ(graph_compiler_.schedules, 0);
  EXPECT_THAT(store_.List("schedule", 10), SizeIs(0));
}

TEST_F(SchedulesTest, AGraphThatDoesNotDecodeHasNone) {
  Schedules schedules(graph_compiler_, store_, devices_, nullptr);
  const auto graph = Graph::Stored("noise", HashBytes("noise"), {});
  EXPECT_FALSE(schedules.Get(request_, *graph, {}).ok());
  EXPECT_THAT(store_.List("schedule", 10), SizeIs(0));
}

}  // namespace
}  // namespace uopd::engine
