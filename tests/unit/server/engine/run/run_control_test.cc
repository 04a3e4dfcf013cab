// SPDX-License-Identifier: MIT
#include "server/engine/run/run_control.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace uopd::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// A device that does not stop: the run is there although its caller has left.
TEST(RunWatchTest, ARunThatDoesNotEndIsOverdue) {
  std::atomic<bool> left{false};
  RequestContext request;
  request.cancelled = [&left] { return left.load(); };
  RunWatch watch;
  {
    RunControl run(watch, request, {}, true);
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_EQ(watch.LongestOverdue(), nanoseconds(0));
    left = true;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (watch.LongestOverdue() < milliseconds(30)) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit);
      std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_TRUE(run.stop()->stopped());
    EXPECT_TRUE(absl::IsCancelled(run.Why()));
  }
  EXPECT_EQ(watch.LongestOverdue(), nanoseconds(0));
}

}  // namespace
}  // namespace uopd::engine
