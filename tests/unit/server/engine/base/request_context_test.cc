// SPDX-License-Identifier: MIT
#include "server/engine/base/request_context.h"

#include <gtest/gtest.h>

namespace uopd::engine {
namespace {

using Clock = RequestContext::Clock;

TEST(RequestContextTest, WithoutLimitsItGoesOn) {
  const RequestContext request;
  EXPECT_TRUE(request.Check().ok());
  EXPECT_EQ(request.wait_limits().deadline, Clock::time_point::max());
  EXPECT_FALSE(request.wait_limits().cancelled);
}

TEST(RequestContextTest, TheDeadlineIsTheFirstMomentThatIsTooLate) {
  RequestContext request;
  request.deadline = Clock::now() + std::chrono::hours(1);
  EXPECT_TRUE(request.Check().ok());
  request.deadline = Clock::now();
  EXPECT_TRUE(absl::IsDeadlineExceeded(request.Check()));
}

TEST(RequestContextTest, CancellingComesBeforeBeingLate) {
  RequestContext request;
  bool gone = false;
  request.cancelled = [&] { return gone; };
  EXPECT_TRUE(request.Check().ok());
  gone = true;
  EXPECT_TRUE(absl::IsCancelled(request.Check()));
  request.deadline = Clock::now();
  EXPECT_TRUE(absl::IsCancelled(request.Check()));
}

TEST(RequestContextTest, ACancellationIsSeenByThoseWhoPoll) {
  RequestContext request;
  const auto ends = std::make_shared<Cancellation>();
  request.EndWith(ends);
  EXPECT_EQ(request.cancellation, ends);
  EXPECT_TRUE(request.Check().ok());
  ends->Cancel();
  EXPECT_TRUE(absl::IsCancelled(request.Check()));
  EXPECT_TRUE(request.wait_limits().cancelled());
}

// Work of a request may be noticed as cancelled when the request has gone.
TEST(RequestContextTest, WaitLimitsOutliveTheRequest) {
  const auto ends = std::make_shared<Cancellation>();
  cache::WaitLimits limits;
  {
    RequestContext request;
    request.EndWith(ends);
    limits = request.wait_limits();
  }
  EXPECT_FALSE(limits.cancelled());
  ends->Cancel();
  EXPECT_TRUE(limits.cancelled());
}

}  // namespace
}  // namespace uopd::engine
