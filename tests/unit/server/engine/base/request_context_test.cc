// SPDX-License-Identifier: MIT
#include "server/engine/base/request_context.h"

#include <gtest/gtest.h>

namespace uopd::engine {
namespace {

TEST(RequestContextTest, ACancellationIsSeenByThoseWhoPoll) {
  RequestContext request;
  const auto ends = std::make_shared<Cancellation>();
  request.EndWith(ends);
  EXPECT_EQ(request.cancellation, ends);
  EXPECT_TRUE(request.Check().ok());
  ends->Cancel();
  EXPECT_TRUE(absl::IsCancelled(request.Check()));
  EXPECT_TRUE(request.limits().cancelled());
}

// Work of a request may be noticed as cancelled when the request has gone.
TEST(RequestContextTest, LimitsOutliveTheRequest) {
  const auto ends = std::make_shared<Cancellation>();
  WorkLimits limits;
  {
    RequestContext request;
    request.EndWith(ends);
    limits = request.limits();
  }
  EXPECT_FALSE(limits.cancelled());
  ends->Cancel();
  EXPECT_TRUE(limits.cancelled());
}

}  // namespace
}  // namespace uopd::engine
