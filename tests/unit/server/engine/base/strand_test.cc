// SPDX-License-Identifier: MIT
#include "server/engine/base/strand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <numeric>
#include <thread>

#include "core/base/status.h"
#include "server/engine/base/request_context.h"
#include "tests/unit/server/engine/cancellable.h"

namespace uopd::engine {
namespace {

TEST(StrandTest, TasksRunOneAtATimeAndInOrder) {
  std::vector<int> seen;  // guarded by the strand
  {
    TaskPool task_pool(4, 10000);
    auto strand = std::make_shared<Strand>(task_pool);
    for (int i = 0; i < 1000; ++i) {
      ASSERT_TRUE(strand->Post({}, [&seen, i] { seen.push_back(i); }).ok());
    }
  }
  std::vector<int> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(seen, expected);
}

TEST(StrandTest, EnteringIsPossibleOnlyWhenNothingIsAhead) {
  std::vector<int> seen;
  {
    TaskPool task_pool(2, 100);
    auto strand = std::make_shared<Strand>(task_pool);
    ASSERT_TRUE(strand->TryEnter());
    EXPECT_FALSE(strand->TryEnter());
    ASSERT_TRUE(strand->Post({}, [&] { seen.push_back(2); }).ok());
    seen.push_back(1);
    strand->Leave();
  }
  EXPECT_THAT(seen, testing::ElementsAre(1, 2));
}

TEST(StrandTest, AFullTaskPoolRefuses) {
  std::latch release(1);  // outlives the task pool, whose thread waits for it
  TaskPool task_pool(1, 2);
  auto strand = std::make_shared<Strand>(task_pool);
  ASSERT_TRUE(strand->Post({}, [&] { release.wait(); }).ok());
  ASSERT_TRUE(strand->Post({}, [] {}).ok());
  EXPECT_EQ(strand->Post({}, [] {}).code(), absl::StatusCode::kResourceExhausted);
  release.count_down();
}

TEST(StrandTest, ATurnMayOutliveItsTask) {
  std::latch later(1), second(1), started(1);
  std::atomic<bool> ended{false};
  TaskPool task_pool(2, 100);
  auto strand = std::make_shared<Strand>(task_pool);
  std::thread other;
  auto admission = task_pool.Admit({});
  ASSERT_TRUE(admission.ok());
  strand->Post(*std::move(admission), {}, [&](Strand::Turn turn) {
    // Returns at once; the turn ends on another thread.
    other = std::thread([&, turn = std::move(turn)]() mutable {
      later.wait();
      ended = true;
      turn.End();
    });
    started.count_down();
  });
  ASSERT_TRUE(strand
                  ->Post({},
                         [&] {
                           EXPECT_TRUE(ended);
                           second.count_down();
                         })
                  .ok());
  later.count_down();
  second.wait();
  started.wait();  // the turn may end before the first task has stored its thread in `other`
  other.join();
}

TEST(StrandTest, ACancelledCallLeavesTheQueue) {
  std::vector<int> seen;
  {
    TaskPool task_pool(1, {.of_flow = 2}, {});
    auto strand = std::make_shared<Strand>(task_pool);
    const RequestContext first = Cancellable(), second = Cancellable(), third = Cancellable();
    ASSERT_TRUE(strand->TryEnter());
    ASSERT_TRUE(strand->Post(first, [&] { seen.push_back(1); }).ok());
    ASSERT_TRUE(strand->Post(second, [&] { seen.push_back(2); }).ok());
    first.cancellation->Cancel();
    EXPECT_THAT(seen, testing::ElementsAre(1));  // at once, though another one is inside
    // Its place is free. One that is cancelled already does not wait at all.
    third.cancellation->Cancel();
    ASSERT_TRUE(strand->Post(third, [&] { seen.push_back(3); }).ok());
    EXPECT_THAT(seen, testing::ElementsAre(1, 3));
    strand->Leave();
  }
  EXPECT_THAT(seen, testing::ElementsAre(1, 3, 2));
}

// The turn is asked for already when the only one that waits for it goes.
TEST(StrandTest, ATurnThatNobodyWantsEnds) {
  std::latch release(1), served(1);
  TaskPool task_pool(1, 100);
  auto strand = std::make_shared<Strand>(task_pool);
  task_pool.Post([&] { release.wait(); });
  int calls = 0;
  const RequestContext request = Cancellable();
  ASSERT_TRUE(strand->Post(request, [&] { ++calls; }).ok());
  request.cancellation->Cancel();
  EXPECT_EQ(calls, 1);
  release.count_down();
  ASSERT_TRUE(strand->Post({}, [&] { served.count_down(); }).ok());
  served.wait();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace uopd::engine
