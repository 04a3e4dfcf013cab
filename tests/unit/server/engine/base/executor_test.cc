// SPDX-License-Identifier: MIT
#include "server/engine/base/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>

#include "core/base/status.h"
#include "server/engine/base/request_context.h"

namespace uopd::engine {
namespace {

RequestContext Cancellable() {
  RequestContext out;
  out.cancellation = std::make_shared<Cancellation>();
  return out;
}

TEST(ExecutorTest, ACancelledRequestWaitsForNoThread) {
  std::latch release(1);
  std::vector<int> seen;
  {
    Executor executor(1, 100);
    executor.Post([&] { release.wait(); });
    const RequestContext leaves = Cancellable(), left = Cancellable(), stays = Cancellable();
    left.cancellation->Cancel();
    executor.Post(leaves, [&] { seen.push_back(1); });
    executor.Post(stays, [&] { seen.push_back(2); });
    executor.Post(left, [&] { seen.push_back(3); });
    EXPECT_THAT(seen, testing::ElementsAre(3));
    leaves.cancellation->Cancel();
    EXPECT_THAT(seen, testing::ElementsAre(3, 1));
    EXPECT_LE(executor.waiting(), 2u);
    release.count_down();
  }
  EXPECT_THAT(seen, testing::ElementsAre(3, 1, 2));
}

// Whoever comes first calls the task; the other one must not.
TEST(ExecutorTest, ACancellationRacesWithTheThread) {
  std::atomic<int> calls{0};
  constexpr int kTimes = 2000;
  {
    Executor executor(2, kTimes);
    for (int i = 0; i < kTimes; ++i) {
      const RequestContext request = Cancellable();
      executor.Post(request, [&] { ++calls; });
      request.cancellation->Cancel();
    }
  }
  EXPECT_EQ(calls, kTimes);
}

TEST(ExecutorTest, BoundsNameTheSetting) {
  Executor executor(1, {.all = 4, .of_peer = 3, .of_flow = 2}, {});
  std::vector<Admission> held;
  auto admit = [&](const Caller& caller) -> std::string {
    auto admission = executor.Admit(caller);
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
TEST(ExecutorTest, AThreadIsLeftForOthers) {
  std::latch release(1), served(1);
  Executor executor(4, {}, {.of_peer = 3, .of_flow = 2});
  for (int i = 0; i < 8; ++i) executor.Post(Caller{"greedy", "1"}, [&] { release.wait(); });
  for (int i = 0; i < 8; ++i) executor.Post(Caller{"greedy", "2"}, [&] { release.wait(); });
  executor.Post(Caller{"modest", "3"}, [&] { served.count_down(); });
  served.wait();
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
