// SPDX-License-Identifier: MIT
#include "server/engine/usage/kernel_usage.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"

namespace uopd::engine {
namespace {

using Clock = KernelUsage::Clock;

// The series of a family with this device, by kernel.
std::map<std::string, double> SeriesOf(const std::string& family, const std::string& device) {
  std::map<std::string, double> out;
  for (const FamilySnapshot& f : MetricRegistry::Global().Snapshot()) {
    if (f.name != family) continue;
    for (const SeriesSnapshot& series : f.series) {
      if (series.label_values[0] == device) out[series.label_values[1]] = series.value;
    }
  }
  return out;
}

double Sum(const std::map<std::string, double>& series) {
  double out = 0;
  for (const auto& [name, value] : series) out += value;
  return out;
}

constexpr char kTime[] = "uopd_kernel_seconds_total";
constexpr char kLaunches[] = "uopd_kernel_launches_total";

TEST(KernelUsage, FewKernelsHaveAllTheirName) {
  KernelUsage usage;
  const auto a = usage.Get({"few", "a"}), b = usage.Get({"few", "b"});
  EXPECT_EQ(a, usage.Get({"few", "a"}));
  a->Add(1e9, 100);
  b->Add(1e9, 10);
  usage.Publish();  // what a kernel used before it has a series is "other"
  a->Add(2e9, 1000);
  a->Add(2e9, 1000);
  b->Add(1e9, 10);
  usage.Publish();
  const auto time = SeriesOf(kTime, "few");
  EXPECT_DOUBLE_EQ(time.at("other"), 2);
  EXPECT_DOUBLE_EQ(time.at("a"), 4);
  EXPECT_DOUBLE_EQ(time.at("b"), 1);
  EXPECT_EQ(SeriesOf(kLaunches, "few").at("a"), 2);
  EXPECT_EQ(SeriesOf("uopd_kernel_bytes_total", "few").at("a"), 2000);
}

TEST(KernelUsage, OnlyTheTopKernelsAreShownAndNothingIsLost) {
  KernelUsage usage;
  Clock::time_point now = Clock::now();
  constexpr size_t kKernels = KernelUsage::kShown + 20;
  double added = 0;
  const auto round = [&](auto weight) {
    for (size_t i = 0; i < kKernels; ++i) {
      const double ns = weight(i) * 1e6;
      usage.Get({"top", Cat("k", i)})->Add(ns, 1);
      added += ns * 1e-9;
    }
    now += KernelUsage::kBetweenChanges;
    usage.Publish(now);
  };
  for (int i = 0; i < 3; ++i) round([](size_t k) { return static_cast<double>(k + 1); });
  auto shown = SeriesOf(kTime, "top");
  EXPECT_EQ(shown.size(), KernelUsage::kShown + 1);
  EXPECT_TRUE(shown.contains(Cat("k", kKernels - 1)));
  EXPECT_FALSE(shown.contains("k0"));
  EXPECT_NEAR(Sum(shown), added, 1e-9);
  // A kernel that takes most of the time from now on gets a series, another one loses it.
  const double other_before = shown.at("other");
  round([](size_t k) { return k == 0 ? 1e4 : 1; });
  round([](size_t k) { return k == 0 ? 1e4 : 1; });
  shown = SeriesOf(kTime, "top");
  EXPECT_EQ(shown.size(), KernelUsage::kShown + 1);
  EXPECT_DOUBLE_EQ(shown.at("k0"), 10);
  EXPECT_GE(shown.at("other"), other_before);
  EXPECT_LE(Sum(shown), added);  // the series that went has what is missing
}

TEST(KernelUsage, SeriesChangeSlowly) {
  KernelUsage usage;
  Clock::time_point now = Clock::now();
  for (size_t i = 0; i < KernelUsage::kShown; ++i) usage.Get({"slow", Cat("old", i)})->Add(1e6, 0);
  usage.Publish(now);
  size_t newcomers = 0;
  for (int step = 0; step < 30; ++step) {
    for (int i = 0; i < 5; ++i) usage.Get({"slow", Cat("new", step, "_", i)})->Add(1e9, 0);
    usage.Publish(now += KernelUsage::kBetweenChanges / 10);
  }
  for (int i = 0; i < 30 * 5; ++i) usage.Get({"slow", Cat("new", i / 5, "_", i % 5)})->Add(1, 0);
  usage.Publish(now);
  for (const auto& [name, value] : SeriesOf(kTime, "slow")) newcomers += name.starts_with("new");
  EXPECT_GE(newcomers, 1u);
  EXPECT_LE(newcomers, 4u);
}

// What Prometheus has to keep after six hours in which every ten seconds bring a new kernel that
// takes most of the time.
TEST(KernelUsage, ADayOfNewKernelsMakesABoundedNumberOfSeries) {
  KernelUsage usage;
  Clock::time_point now = Clock::now();
  std::set<std::string> seen;
  constexpr int kSteps = 6 * 360;
  for (int step = 0; step < kSteps; ++step) {
    usage.Get({"day", Cat("k", step)})->Add(1e9, 0);
    usage.Publish(now += std::chrono::seconds(10));
    for (const auto& [name, value] : SeriesOf(kTime, "day")) seen.insert(name);
  }
  EXPECT_LE(seen.size(), KernelUsage::kShown + 1 + 6 * 60);
  EXPECT_LE(SeriesOf(kTime, "day").size(), KernelUsage::kShown + 1);
}

TEST(KernelUsage, TheNumberOfNamesIsBounded) {
  KernelUsage usage;
  std::vector<std::shared_ptr<KernelUse>> held;
  for (size_t i = 0; i < KernelUsage::kKnown; ++i) held.push_back(usage.Get({"many", Cat("k", i)}));
  const auto more = usage.Get({"many", "more"});
  EXPECT_EQ(more, usage.Get({"many", "yet another"}));
  more->Add(3e9, 0);
  // Nobody uses these names any more: others take their places, and what they used is counted.
  held.back()->Add(1e9, 0);
  held.clear();
  EXPECT_NE(usage.Get({"many", "next"}), more);
  usage.Publish();
  EXPECT_DOUBLE_EQ(Sum(SeriesOf(kTime, "many")), 4);
}

}  // namespace
}  // namespace uopd::engine
