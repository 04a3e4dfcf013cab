// SPDX-License-Identifier: MIT
#include "server/engine/strand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <numeric>

namespace uopd::engine {
namespace {

TEST(StrandTest, TasksRunOneAtATimeAndInOrder) {
  std::vector<int> seen;  // guarded by the strand
  {
    Executor executor(4, 10000);
    auto strand = std::make_shared<Strand>(executor);
    for (int i = 0; i < 1000; ++i) {
      ASSERT_TRUE(strand->Post([&seen, i] { seen.push_back(i); }).ok());
    }
  }
  std::vector<int> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(seen, expected);
}

TEST(StrandTest, EnteringIsPossibleOnlyWhenNothingIsAhead) {
  std::vector<int> seen;
  {
    Executor executor(2, 100);
    auto strand = std::make_shared<Strand>(executor);
    ASSERT_TRUE(strand->TryEnter());
    EXPECT_FALSE(strand->TryEnter());
    ASSERT_TRUE(strand->Post([&] { seen.push_back(2); }).ok());
    seen.push_back(1);
    strand->Leave();
  }
  EXPECT_THAT(seen, testing::ElementsAre(1, 2));
}

TEST(StrandTest, AFullExecutorRefuses) {
  std::latch release(1);  // outlives the executor, whose thread waits for it
  Executor executor(1, 2);
  auto strand = std::make_shared<Strand>(executor);
  ASSERT_TRUE(strand->Post([&] { release.wait(); }).ok());
  ASSERT_TRUE(strand->Post([] {}).ok());
  EXPECT_EQ(strand->Post([] {}).code(), absl::StatusCode::kResourceExhausted);
  release.count_down();
}

TEST(ExecutorTest, ParallelForCallsEveryIndexOnce) {
  Executor executor(3, 1);
  for (size_t n : {0u, 1u, 2u, 100u}) {
    std::vector<std::atomic<int>> calls(n);
    executor.ParallelFor(n, [&](size_t i) { calls[i].fetch_add(1); });
    for (const auto& count : calls) EXPECT_EQ(count.load(), 1);
  }
}

TEST(ExecutorTest, ParallelForNeedsNoFreeThread) {
  std::latch release(1);  // outlives the executor, whose thread waits for it
  Executor executor(1, 1);
  executor.Post([&] { release.wait(); });
  int calls = 0;  // all on this thread
  executor.ParallelFor(5, [&](size_t) { ++calls; });
  EXPECT_EQ(calls, 5);
  release.count_down();
}

}  // namespace
}  // namespace uopd::engine
