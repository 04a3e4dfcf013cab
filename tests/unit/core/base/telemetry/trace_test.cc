// SPDX-License-Identifier: MIT
#include "core/base/telemetry/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/base/telemetry/metrics.h"

namespace uopd {
namespace {

using ::testing::HasSubstr;

// Lets the clock move by at least `ns`.
void Spend(int64_t ns) {
  for (const int64_t end = NowNs() + ns; NowNs() < end;) {
  }
}

TEST(Phases, NamesAreInOrder) {
  EXPECT_EQ(kPhaseCount, 10u);
  EXPECT_EQ(PhaseName(Phase::kQueue), "queue");
  EXPECT_EQ(PhaseName(Phase::kTune), "tune");
  EXPECT_EQ(PhaseName(Phase::kRun), "run");
}

TEST(Phases, ScopesAccumulate) {
  PhaseTimings timings;
  const int64_t begin = NowNs();
  for (int i = 0; i < 2; i++) {
    ScopedPhase phase(Phase::kCodegen, &timings);
    Spend(100000);
  }
  EXPECT_GE(timings[Phase::kCodegen], 200000);
  EXPECT_EQ(timings[Phase::kRun], 0);
  EXPECT_LE(timings.total_ns(), NowNs() - begin);
}

TEST(Phases, AnInnerPhasePausesTheOuterOne) {
  PhaseTimings timings;
  const int64_t begin = NowNs();
  int64_t inner_elapsed = 0;
  {
    ScopedPhase outer(Phase::kCompile, &timings);
    Spend(100000);
    {
      const int64_t inner_begin = NowNs();
      ScopedPhase inner(Phase::kLoad, &timings);
      Spend(300000);
      inner_elapsed = NowNs() - inner_begin;
    }
    Spend(100000);
  }
  const int64_t elapsed = NowNs() - begin;
  EXPECT_GE(timings[Phase::kLoad], 300000);
  EXPECT_GE(timings[Phase::kCompile], 200000);
  EXPECT_LE(timings.total_ns(), elapsed);
  EXPECT_LE(timings[Phase::kCompile], elapsed - 300000);
  EXPECT_GE(inner_elapsed, 300000);
}

TEST(Phases, TimingsOfThreadsAddUp) {
  PhaseTimings a, b;
  a.Add(Phase::kRun, 5);
  b.Add(Phase::kRun, 7);
  b.Add(Phase::kCopy, 1);
  a.Add(b);
  EXPECT_EQ(a[Phase::kRun], 12);
  EXPECT_EQ(a.total_ns(), 13);
}

TEST(Phases, ObserveCountsPhasesThatTookTime) {
  auto count = [](std::string_view phase) {
    uint64_t total = 0;
    for (uint64_t bucket : metrics::PhaseDuration({phase}).bucket_counts()) total += bucket;
    return total;
  };
  const uint64_t tune = count("tune"), verify = count("verify");
  PhaseTimings timings;
  timings.Add(Phase::kTune, 1000000);
  timings.Observe();
  EXPECT_EQ(count("tune"), tune + 1);
  EXPECT_EQ(count("verify"), verify);
}

TEST(TraceTest, PhasesBecomeEvents) {
  Trace trace;
  PhaseTimings timings;
  {
    ScopedPhase phase(Phase::kSchedule, &timings, &trace);
  }
  EXPECT_THAT(trace.Json(), HasSubstr("{\"name\":\"schedule\",\"ph\":\"X\",\"pid\":1,\"tid\":"));
}

TEST(TraceTest, NamesAreEscaped) {
  Trace trace;
  trace.Add("a\"b\\c\n", 0, 1);
  EXPECT_THAT(trace.Json(), HasSubstr("\"a\\\"b\\\\c\\u000a\""));
}

TEST(TraceTest, BoundedAndThreadSafe) {
  Trace trace(100);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([&trace] {
      for (int i = 0; i < 50; i++) trace.Add("e", i, i + 1);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(trace.dropped(), 100u);
  std::string json = trace.Json();
  size_t events = 0;
  for (size_t at = 0; (at = json.find("\"ph\"", at)) != std::string::npos; at++) events++;
  EXPECT_EQ(events, 100u);
}

}  // namespace
}  // namespace uopd
