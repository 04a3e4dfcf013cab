// SPDX-License-Identifier: MIT
#include "server/engine/base/cancellation.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace uopd::engine {
namespace {

TEST(CancellationTest, IsForGoodAndCallsTheWatcherOnce) {
  Cancellation cancellation;
  int calls = 0;
  cancellation.Watch([&] {
    EXPECT_TRUE(cancellation.cancelled());
    ++calls;
  });
  EXPECT_FALSE(cancellation.cancelled());
  EXPECT_EQ(calls, 0);
  cancellation.Cancel();
  cancellation.Cancel();
  EXPECT_TRUE(cancellation.cancelled());
  EXPECT_EQ(calls, 1);
}

TEST(CancellationTest, WhoWatchesTooLateIsToldAtOnce) {
  Cancellation cancellation;
  cancellation.Cancel();
  int calls = 0;
  cancellation.Watch([&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(CancellationTest, AWatcherThatComesTooLateStaysWithTheCaller) {
  Cancellation cancellation;
  cancellation.Cancel();
  int calls = 0;
  absl::AnyInvocable<void()> watcher = [&] { ++calls; };
  EXPECT_FALSE(cancellation.TryWatch(watcher));
  EXPECT_EQ(calls, 0);
  ASSERT_TRUE(watcher);
  watcher();
  EXPECT_EQ(calls, 1);
}

TEST(CancellationTest, ThereIsOneWatcherAtATime) {
  Cancellation cancellation;
  int first = 0, second = 0;
  cancellation.Watch([&] { ++first; });
  cancellation.Watch([&] { ++second; });
  cancellation.Cancel();
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
}

TEST(CancellationTest, WhoUnwatchesIsNotCalled) {
  Cancellation cancellation;
  int calls = 0;
  cancellation.Watch([&] { ++calls; });
  cancellation.Unwatch();
  cancellation.Unwatch();
  cancellation.Cancel();
  EXPECT_EQ(calls, 0);
}

// The watcher runs without locks: it may use the cancellation.
TEST(CancellationTest, TheWatcherMayUnwatch) {
  Cancellation cancellation;
  int calls = 0;
  cancellation.Watch([&] {
    cancellation.Unwatch();
    ++calls;
  });
  cancellation.Cancel();
  EXPECT_EQ(calls, 1);
}

TEST(CancellationTest, ManyThreadsCallTheWatcherOnce) {
  Cancellation cancellation;
  std::atomic<int> calls{0};
  cancellation.Watch([&] { ++calls; });
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { cancellation.Cancel(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace uopd::engine
