// SPDX-License-Identifier: MIT
#include "client/cpp/net/backoff.h"

#include <gtest/gtest.h>

namespace uopd::client {
namespace {

TEST(BackoffTest, WaitsTwiceAsLongEachTimeUpToABound) {
  Backoff backoff(1);
  auto most = Backoff::kFirst;
  for (int i = 0; i < 12; ++i) {
    const auto wait = backoff.Next();
    EXPECT_GE(wait, most / 2) << i;
    EXPECT_LE(wait, most) << i;
    most = std::min(most * 2, Backoff::kLongest);
  }
}

TEST(BackoffTest, ClientsDoNotWaitEquallyLong) {
  Backoff a(1), b(2);
  bool differ = false;
  for (int i = 0; i < 12; ++i) differ |= a.Next() != b.Next();
  EXPECT_TRUE(differ);
}

}  // namespace
}  // namespace uopd::client
