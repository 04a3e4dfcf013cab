// SPDX-License-Identifier: MIT
#include "core/base/telemetry/trace_parent.h"

#include <gtest/gtest.h>

namespace uopd {
namespace {

constexpr char kGood[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceParentTest, ReadsTheParts) {
  const auto trace = TraceParent::Parse(kGood);
  ASSERT_TRUE(trace.has_value());
  EXPECT_EQ(trace->trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(trace->parent_id, "00f067aa0ba902b7");
  EXPECT_TRUE(trace->sampled);
}

TEST(TraceParentTest, OnlyTheLastFlagSaysSampled) {
  std::string text = kGood;
  text.back() = '2';
  ASSERT_TRUE(TraceParent::Parse(text).has_value());
  EXPECT_FALSE(TraceParent::Parse(text)->sampled);
}

TEST(TraceParentTest, ALaterVersionMaySayMore) {
  std::string later = std::string(kGood) + "-more";
  EXPECT_FALSE(TraceParent::Parse(later).has_value());
  later[1] = '1';
  EXPECT_TRUE(TraceParent::Parse(later).has_value());
  EXPECT_FALSE(TraceParent::Parse(later.substr(0, 55) + "x").has_value());
}

// Every text that differs from a good one in one character to something that is no digit, and every
// shorter one.
TEST(TraceParentTest, OthersAreNone) {
  const std::string good = kGood;
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(TraceParent::Parse(good.substr(0, i)).has_value()) << i;
    for (char c : {'g', 'A', ' ', '\0', '_'}) {
      std::string text = good;
      text[i] = c;
      EXPECT_FALSE(TraceParent::Parse(text).has_value()) << text;
    }
  }
  EXPECT_FALSE(TraceParent::Parse("ff" + good.substr(2)).has_value());
  EXPECT_FALSE(
      TraceParent::Parse("00-00000000000000000000000000000000-00f067aa0ba902b7-01").has_value());
  EXPECT_FALSE(
      TraceParent::Parse("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01").has_value());
}

}  // namespace
}  // namespace uopd
