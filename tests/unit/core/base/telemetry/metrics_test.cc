// SPDX-License-Identifier: MIT
#include "core/base/telemetry/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <thread>

namespace uopd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kBounds[] = {1, 10};
constexpr MetricSpec kSpecs[] = {
    {MetricKind::kCounter, "plain_total", 1, {}, {}, "Plain"},
    {MetricKind::kCounter, "labelled_total", 3, {"store", "result"}, {}, "Labelled"},
    {MetricKind::kGauge, "level", 1, {}, {}, "Level"},
    {MetricKind::kHistogram, "time_seconds", 4, {"device"}, kBounds, "Time"},
};

const SeriesSnapshot* Find(const FamilySnapshot& family, std::vector<std::string> labels) {
  for (const SeriesSnapshot& series : family.series) {
    if (series.label_values == labels) return &series;
  }
  return nullptr;
}

TEST(MetricsTable, NamesFollowTheConventions) {
  std::set<std::string_view> names;
  for (const MetricSpec& spec : Metrics()) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    EXPECT_TRUE(std::regex_match(std::string(spec.name), std::regex("[a-z][a-z0-9_]*")))
        << spec.name;
    const bool counts = spec.kind == MetricKind::kCounter || spec.kind == MetricKind::kTimeCounter;
    EXPECT_EQ(counts, spec.name.ends_with("_total")) << spec.name;
    EXPECT_EQ(spec.kind == MetricKind::kTimeCounter, spec.name.ends_with("_seconds_total"))
        << spec.name;
    EXPECT_EQ(spec.kind == MetricKind::kHistogram, !spec.bounds.empty()) << spec.name;
    EXPECT_LE(spec.bounds.size(), Histogram::kMaxBounds) << spec.name;
    EXPECT_FALSE(spec.help.empty()) << spec.name;
  }
}

TEST(Metrics, UnlabelledSeriesExistFromTheStart) {
  MetricRegistry registry(kSpecs);
  auto families = registry.Snapshot();
  ASSERT_EQ(families.size(), 4u);
  EXPECT_EQ(families[0].name, "uopd_plain_total");
  EXPECT_EQ(families[0].series.size(), 1u);
  EXPECT_TRUE(families[1].series.empty());
}

TEST(Metrics, SameLabelsAreTheSameSeries) {
  MetricRegistry registry(kSpecs);
  Counter& hit = registry.GetCounter(1, {"sqlite", "hit"});
  EXPECT_EQ(&hit, &registry.GetCounter(1, {"sqlite", "hit"}));
  EXPECT_NE(&hit, &registry.GetCounter(1, {"sqlite", "miss"}));
  hit.Increment();
  hit.Increment(4);
  auto family = registry.Snapshot()[1];
  EXPECT_THAT(family.label_names, ElementsAre("store", "result"));
  ASSERT_NE(Find(family, {"sqlite", "hit"}), nullptr);
  EXPECT_EQ(Find(family, {"sqlite", "hit"})->value, 5);
  EXPECT_EQ(Find(family, {"sqlite", "miss"})->value, 0);
}

TEST(Metrics, TooManySeriesShareOther) {
  MetricRegistry registry(kSpecs);
  for (int i = 0; i < 10; i++) registry.GetCounter(1, {std::to_string(i), "hit"}).Increment();
  auto family = registry.Snapshot()[1];
  EXPECT_EQ(family.series.size(), 4u);  // three and "other"
  ASSERT_NE(Find(family, {"other", "other"}), nullptr);
  EXPECT_EQ(Find(family, {"other", "other"})->value, 7);
  EXPECT_EQ(Find(family, {"0", "hit"})->value, 1);
}

TEST(Metrics, GaugesAndScopes) {
  MetricRegistry registry(kSpecs);
  Gauge& level = registry.GetGauge(2);
  level.Set(2.5);
  {
    GaugeScope scope(level);
    EXPECT_EQ(level.value(), 3.5);
  }
  EXPECT_EQ(registry.Snapshot()[2].series[0].value, 2.5);
}

TEST(Metrics, HistogramBoundsAreInclusive) {
  MetricRegistry registry(kSpecs);
  Histogram& time = registry.GetHistogram(3, {"CPU"});
  for (double v : {0.5, 1.0, 1.5, 10.0, 11.0, 1e9}) time.Observe(v);
  auto series = registry.Snapshot()[3].series[0];
  EXPECT_THAT(series.bucket_counts, ElementsAre(2, 2, 2));
  EXPECT_EQ(series.count, 6u);
  EXPECT_DOUBLE_EQ(series.sum, 1e9 + 24);
}

TEST(Metrics, SnapshotIsSortedByLabels) {
  MetricRegistry registry(kSpecs);
  for (const char* device : {"HIP", "CPU", "CUDA"}) registry.GetHistogram(3, {device});
  std::vector<std::string> devices;
  auto families = registry.Snapshot();
  for (auto& series : families[3].series) devices.push_back(series.label_values[0]);
  EXPECT_THAT(devices, ElementsAre("CPU", "CUDA", "HIP"));
}

TEST(Metrics, NothingIsLostBetweenThreads) {
  MetricRegistry registry(kSpecs);
  constexpr int kThreads = 12, kRounds = 2000;  // more threads than shards
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&registry, t] {
      for (int i = 0; i < kRounds; i++) {
        registry.GetCounter(0).Increment();
        registry.GetCounter(1, {std::to_string((t + i) % 5), "hit"}).Increment();
        registry.GetHistogram(3, {"CPU"}).Observe(i % 3 == 0 ? 0.5 : 5);
        registry.GetGauge(2).Add(i % 2 ? -1 : 1);
        if (i % 500 == 0) registry.Snapshot();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  auto families = registry.Snapshot();
  EXPECT_EQ(families[0].series[0].value, kThreads * kRounds);
  double labelled = 0;
  for (auto& series : families[1].series) labelled += series.value;
  EXPECT_EQ(labelled, kThreads * kRounds);
  EXPECT_EQ(families[2].series[0].value, 0);
  EXPECT_EQ(families[3].series[0].count, uint64_t{kThreads} * kRounds);
}

TEST(MetricsDeathTest, WrongLabelCountIsABug) {
  EXPECT_DEATH(metrics::CacheRequests({"sqlite"}), "check failed");
}

TEST(Metrics, GlobalFamiliesByName) {
  Counter& hits = metrics::CacheRequests({"kernel", "hit"});
  uint64_t before = hits.value();
  hits.Increment();
  EXPECT_EQ(metrics::CacheRequests({"kernel", "hit"}).value(), before + 1);
  EXPECT_GT(metrics::ProcessStartTime().value(), 1.6e9);
  std::set<std::string> names;
  for (auto& family : MetricRegistry::Global().Snapshot()) names.insert(family.name);
  for (const char* name :
       {"uopd_kernels_compiled_total", "uopd_cache_requests_total", "uopd_cache_state",
        "uopd_rpc_duration_seconds", "uopd_kernel_duration_seconds", "uopd_pattern_attempts_total",
        "uopd_pattern_matches_total", "uopd_sessions", "uopd_buffers_bytes", "uopd_rpc_in_flight",
        "uopd_bugs_total", "uopd_schedules_total", "uopd_phase_duration_seconds",
        "uopd_bytes_received_total", "uopd_bytes_sent_total"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_THAT(MetricsDocs(),
              HasSubstr("| `uopd_cache_requests_total` | counter | `store`, `result` |"));
}

}  // namespace
}  // namespace uopd
