// SPDX-License-Identifier: MIT
#include "server/engine/base/task_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>

#include "core/base/status.h"
#include "server/engine/base/request_context.h"
#include "tests/unit/server/engine/cancellable.h"

namespace uopd::engine {
namespace {

TEST(TaskPoolTest, ACancelledRequestWaitsForNoThread) {
  std::latch release(1);
  std::vector<int> seen;
  {
    TaskPool task_pool(1, 100);
    task_pool.Post([&] { release.wait(); });
    const RequestContext leaves = Cancellable(), left = Cancellable(), stays = Cancellable();
    left.cancellation->Cancel();
    task_pool.Post(leaves, [&] { seen.push_back(1); });
    task_pool.Post(stays, [&] { seen.push_back(2); });
    task_pool.Post(left, [&] { seen.push_back(3); });
    EXPECT_THAT(seen, testing::ElementsAre(3));
    leaves.cancellation->Cancel();
    EXPECT_THAT(seen, testing::ElementsAre(3, 1));
    EXPECT_LE(task_pool.waiting(), 2u);
    release.count_down();
  }
  EXPECT_THAT(seen, testing::ElementsAre(3, 1, 2));
}

// Whoever comes first calls the task; the other one must not.
TEST(TaskPoolTest, ACancellationRacesWithTheThread) {
  std::atomic<int> calls{0};
  constexpr int kTimes = 2000;
  {
    TaskPool task_pool(2, kTimes);
    for (int i = 0; i < kTimes; ++i) {
      const RequestContext request = Cancellable();
      task_pool.Post(request, [&] { ++calls; });
      request.cancellation->Cancel();
    }
  }
  EXPECT_EQ(calls, kTimes);
}

TEST(TaskPoolTest, BoundsNameTheSetting) {
  TaskPool task_pool(1, {.all = 4, .of_peer = 3, .of_flow = 2}, {});
  std::vector<Admission> held;
  auto admit = [&](const Caller& caller) -> std::string {
    auto admission = task_pool.Admit(caller);
    if (!admission.ok()) return StatusText(admission.status());
    held.push_back(*std::move(admission));
    return "";
  };
  EXPECT_EQ(admit({"a", "1"}), "");
  EXPECT_EQ(admit({"a", "1"}), "");
  EXPECT_THAT(admit({"a", "1"}), testing::HasSubstr("limits.flow_waiting"));
  EXPECT_EQ(admit({"a", "2"}), "");
  EXPECT_THAT(admit({"a", "3"}), testing::HasSubstr("limits.peer_waiting"));
  EXPECT_EQ(admit({"b", "4"}), "");
  EXPECT_THAT(admit({"c", "5"}), testing::HasSubstr("limits.waiting"));
  held.clear();
  EXPECT_EQ(admit({"a", "1"}), "");
}

// Four that never end do not keep the fifth waiting: its flow is another one.
TEST(TaskPoolTest, AThreadIsLeftForOthers) {
  std::latch release(1), served(1);
  TaskPool task_pool(4, {}, {.of_peer = 3, .of_flow = 2});
  for (int i = 0; i < 8; ++i) task_pool.Post(Caller{"greedy", "1"}, [&] { release.wait(); });
  for (int i = 0; i < 8; ++i) task_pool.Post(Caller{"greedy", "2"}, [&] { release.wait(); });
  task_pool.Post(Caller{"modest", "3"}, [&] { served.count_down(); });
  served.wait();
  release.count_down();
}

TEST(TaskPoolTest, ParallelForCallsEveryIndexOnce) {
  TaskPool task_pool(3, 1);
  for (size_t n : {0u, 1u, 2u, 100u}) {
    std::vector<std::atomic<int>> calls(n);
    task_pool.ParallelFor(n, [&](size_t i) { calls[i].fetch_add(1); });
    for (const auto& count : calls) EXPECT_EQ(count.load(), 1);
  }
}

TEST(TaskPoolTest, ParallelForNeedsNoFreeThread) {
  std::latch release(1);  // outlives the task pool, whose thread waits for it
  TaskPool task_pool(1, 1);
  task_pool.Post([&] { release.wait(); });
  int calls = 0;  // all on this thread
  task_pool.ParallelFor(5, [&](size_t) { ++calls; });
  EXPECT_EQ(calls, 5);
  release.count_down();
}

}  // namespace
}  // namespace uopd::engine
