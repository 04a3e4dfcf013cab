// SPDX-License-Identifier: MIT
#include "core/base/telemetry/exemplar.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "core/base/telemetry/metrics.h"

namespace uopd {
namespace {

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";

TEST(ExemplarId, TakesTheTraceBeforeTheRequest) {
  const ExemplarId both{kTrace, "7f"};
  EXPECT_TRUE(both.traced());
  EXPECT_EQ(both.text(), kTrace);
  const ExemplarId request{"", "7f"};
  EXPECT_FALSE(request.traced());
  EXPECT_EQ(request.text(), "7f");
}

TEST(ExemplarId, UnusableTexts) {
  EXPECT_TRUE((ExemplarId{"", std::string_view("a!~\"\\", 5)}.usable()));
  EXPECT_FALSE((ExemplarId{"", ""}.usable()));
  EXPECT_FALSE((ExemplarId{"", "a b"}.usable()));
  EXPECT_FALSE((ExemplarId{"", "a\n"}.usable()));
  EXPECT_FALSE((ExemplarId{"", "\xc3\xa9"}.usable()));
  EXPECT_FALSE((ExemplarId{"", std::string_view("\0", 1)}.usable()));
  EXPECT_TRUE((ExemplarId{"", std::string(ExemplarId::kMaxSize, 'x')}.usable()));
  EXPECT_FALSE((ExemplarId{"", std::string(ExemplarId::kMaxSize + 1, 'x')}.usable()));
}

TEST(ExemplarSlots, ATracedRequestIsKeptLonger) {
  ExemplarSlots slots(1);
  EXPECT_FALSE(slots.Read(0).has_value());
  slots.OfferAt(0, {"", "first"}, 1, 1'000'000);
  slots.OfferAt(0, {"", "too soon"}, 2, 1'000'000 + ExemplarSlots::kLeastMs - 1);
  EXPECT_EQ(slots.Read(0)->id, "first");
  slots.OfferAt(0, {kTrace, "x"}, 3, 1'000'001);
  EXPECT_EQ(slots.Read(0)->id, kTrace);
  EXPECT_EQ(slots.Read(0)->label, "trace_id");
  EXPECT_EQ(slots.Read(0)->value, 3);
  EXPECT_DOUBLE_EQ(slots.Read(0)->time_s, 1000.001);
  slots.OfferAt(0, {"", "second"}, 4, 1'000'001 + ExemplarSlots::kTracedMs - 1);
  EXPECT_EQ(slots.Read(0)->id, kTrace);
  slots.OfferAt(0, {"", "second"}, 4, 1'000'001 + ExemplarSlots::kTracedMs);
  EXPECT_EQ(slots.Read(0)->id, "second");
  EXPECT_EQ(slots.Read(0)->label, "request_id");
  slots.OfferAt(0, {"", "third"}, 5, 999);  // the clock was set back
  EXPECT_EQ(slots.Read(0)->id, "third");
}

TEST(Exemplars, GoToTheBucketOfTheirValue) {
  constexpr double kBounds[] = {1, 10};
  Histogram histogram(kBounds);
  histogram.Observe(0.5);
  EXPECT_TRUE(histogram.exemplars().empty());
  histogram.Observe(2, {"", "not usable\n"});
  EXPECT_TRUE(histogram.exemplars().empty());
  histogram.Observe(10, {kTrace, ""});
  histogram.Observe(11, {"", "7f"});
  const auto exemplars = histogram.exemplars();
  ASSERT_EQ(exemplars.size(), 3u);
  EXPECT_FALSE(exemplars[0].has_value());
  EXPECT_EQ(exemplars[1]->id, kTrace);
  EXPECT_EQ(exemplars[1]->value, 10);
  EXPECT_EQ(exemplars[2]->id, "7f");
  EXPECT_EQ(histogram.bucket_counts(), (std::vector<uint64_t>{1, 2, 1}));
}

// A reader never sees a half-written exemplar.
TEST(Exemplars, ManyThreads) {
  constexpr double kBounds[] = {1};
  Histogram histogram(kBounds);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&histogram, t] {
      const std::string id(20, static_cast<char>('a' + t));
      for (int i = 0; i < 2000; ++i) histogram.Observe(t, {"", id});
    });
  }
  for (int i = 0; i < 200; ++i) {
    for (const auto& exemplar : histogram.exemplars()) {
      if (!exemplar) continue;
      EXPECT_EQ(exemplar->id, std::string(20, exemplar->id[0]));
    }
  }
  for (auto& thread : threads) thread.join();
}

TEST(MetricsForget, RemovesTheSeriesAndOnlyIt) {
  constexpr MetricSpec kSpecs[] = {
      {MetricKind::kTimeCounter, "busy_seconds_total", 2, {"device", "kernel"}, {}, "Busy"}};
  MetricRegistry registry(kSpecs);
  registry.GetTimeCounter(0, {"CPU", "a"}).AddNs(1'500'000'000);
  registry.GetTimeCounter(0, {"CPU", "b"}).AddNs(1);
  FamilySnapshot family = registry.Snapshot()[0];
  EXPECT_EQ(family.kind, MetricKind::kCounter);
  EXPECT_DOUBLE_EQ(family.series[0].value, 1.5);
  registry.Forget("busy_seconds_total", {"CPU", "a"});
  registry.Forget("busy_seconds_total", {"CPU", "none"});
  registry.Forget("another_total", {"CPU", "b"});
  family = registry.Snapshot()[0];
  ASSERT_EQ(family.series.size(), 1u);
  EXPECT_EQ(family.series[0].label_values[1], "b");
  registry.GetTimeCounter(0, {"CPU", "c"}).AddNs(1);  // there is room again
  EXPECT_EQ(registry.Snapshot()[0].series.size(), 2u);
}

}  // namespace
}  // namespace uopd
