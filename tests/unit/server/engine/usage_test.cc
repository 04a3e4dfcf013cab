// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "core/base/text.h"
#include "server/engine/usage/busy_time.h"
#include "server/engine/usage/kernel_usage.h"
#include "server/engine/usage/process_usage.h"
#include "server/engine/usage/program_usage.h"
#include "server/engine/usage/tenant_usage.h"

namespace uopd::engine {
namespace {

using ::testing::ElementsAre;

// The value of a series; of histograms the number of observations. -1: there is none.
double Value(const std::string& family, const std::vector<std::string>& labels) {
  for (const FamilySnapshot& f : MetricRegistry::Global().Snapshot()) {
    if (f.name != family) continue;
    for (const SeriesSnapshot& series : f.series) {
      if (series.label_values != labels) continue;
      return f.kind == MetricKind::kHistogram ? static_cast<double>(series.count) : series.value;
    }
  }
  return -1;
}

PhaseTimings Timings(std::initializer_list<std::pair<Phase, int64_t>> phases) {
  PhaseTimings out;
  for (const auto& [phase, ns] : phases) out.Add(phase, ns);
  return out;
}

TEST(RequestPartsTest, TheSumIsTheTimeOfTheRequest) {
  const auto parts = RequestParts::Of(100, Timings({{Phase::kQueue, 10},
                                                    {Phase::kSchedule, 5},
                                                    {Phase::kCompile, 20},
                                                    {Phase::kRun, 30},
                                                    {Phase::kCopy, 5}}));
  EXPECT_THAT(parts.ns, ElementsAre(10, 25, 35, 30));
  EXPECT_EQ(parts.waited_ns(), 65);
}

TEST(RequestPartsTest, CompilesSideBySideAreNoLongerThanTheRequest) {
  const auto parts = RequestParts::Of(100, Timings({{Phase::kCompile, 400}, {Phase::kRun, 30}}));
  EXPECT_THAT(parts.ns, ElementsAre(0, 70, 30, 0));
}

TEST(RequestPartsTest, NothingIsNegative) {
  EXPECT_THAT(RequestParts::Of(-5, Timings({{Phase::kRun, 30}})).ns, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(RequestParts::Of(10, Timings({{Phase::kRun, 30}, {Phase::kQueue, 3}})).ns,
              ElementsAre(0, 0, 10, 0));
}

TEST(TenantUseTest, CountsByMethodCodeAndPart) {
  TenantUse& use = TenantUse::Of("alice");
  EXPECT_EQ(&use, &TenantUse::Of("alice"));
  use.Count(3, "Execute", absl::StatusCode::kOk);
  use.Count(3, "Execute", absl::StatusCode::kOk);
  use.Count(3, "Execute", absl::StatusCode::kInternal);
  EXPECT_EQ(Value("uopd_tenant_requests_total", {"alice", "Execute", "OK"}), 2);
  EXPECT_EQ(Value("uopd_tenant_requests_total", {"alice", "Execute", "INTERNAL"}), 1);
  EXPECT_EQ(Value("uopd_tenant_faults_total", {"alice"}), 1);
  EXPECT_EQ(Value("uopd_tenant_faults_total", {TenantUse::Of("calm").label()}), 0);
  use.AddWork(RequestParts::Of(3'000'000'000, Timings({{Phase::kRun, 1'000'000'000}})));
  use.AddWire(500'000'000);
  EXPECT_EQ(Value("uopd_tenant_request_duration_seconds", {"alice", "total"}), 1);
  EXPECT_EQ(Value("uopd_tenant_request_duration_seconds", {"alice", "waited"}), 1);
  EXPECT_DOUBLE_EQ(Value("uopd_tenant_seconds_total", {"alice", "device"}), 1);
  EXPECT_DOUBLE_EQ(Value("uopd_tenant_seconds_total", {"alice", "other"}), 2);
  EXPECT_DOUBLE_EQ(Value("uopd_tenant_seconds_total", {"alice", "wire"}), 0.5);
  CountReceived("alice", 7);
  CountSent("alice", 9);
  EXPECT_EQ(Value("uopd_tenant_bytes_total", {"alice", "received"}), 7);
  EXPECT_EQ(Value("uopd_tenant_bytes_total", {"alice", "sent"}), 9);
}

TEST(TenantUseTest, WhoHasNoTokenIsOneTenant) { EXPECT_EQ(TenantUse::Of("").label(), "-"); }

TEST(TenantUseTest, BeyondTheBoundAllAreOther) {
  for (size_t i = 0; i < TenantUse::kShown + 50; ++i)
    TenantUse::Of(Cat("many-", i)).Count(0, "Hello", absl::StatusCode::kOk);
  EXPECT_EQ(TenantUse::Of(Cat("many-", TenantUse::kShown + 49)).label(), "other");
  EXPECT_GE(Value("uopd_tenant_requests_total", {"other", "Hello", "OK"}), 50);
  size_t tenants = 0;
  for (const FamilySnapshot& f : MetricRegistry::Global().Snapshot()) {
    if (f.name == "uopd_tenant_bytes_total") tenants = f.series.size() / 2;
  }
  EXPECT_LE(tenants, TenantUse::kShown + 1);
}

TEST(ProgramUseTest, OutcomesSayWhoseFaultItWas) {
  EXPECT_EQ(OutcomeOf(absl::StatusCode::kOk), Outcome::kOk);
  EXPECT_EQ(OutcomeOf(absl::StatusCode::kInternal), Outcome::kFailed);
  EXPECT_EQ(OutcomeOf(absl::StatusCode::kUnavailable), Outcome::kFailed);
  EXPECT_EQ(OutcomeOf(absl::StatusCode::kInvalidArgument), Outcome::kRefused);
  EXPECT_EQ(OutcomeOf(absl::StatusCode::kCancelled), Outcome::kRefused);
}

TEST(ProgramUseTest, RequestsAndTimeHaveTheNameOfTheProgram) {
  ProgramUsage usage;
  const std::string name = ProgramName(HashBytes("a program"));
  EXPECT_EQ(name.size(), 12);
  const auto use = usage.Get(name);
  const auto parts = RequestParts::Of(
      3'000'000'000, Timings({{Phase::kRun, 1'000'000'000}, {Phase::kQueue, 500'000'000}}));
  use->Add(Outcome::kOk, parts);
  for (const char* outcome : {"ok", "refused", "failed"})
    EXPECT_GE(Value("uopd_program_requests_total", {"other", outcome}), 0) << outcome;
  usage.Publish();  // what a program used before it has a series is "other"
  // Prometheus sees only what a series grows by.
  for (const char* outcome : {"ok", "refused", "failed"})
    EXPECT_EQ(Value("uopd_program_requests_total", {name, outcome}), 0) << outcome;
  EXPECT_EQ(Value("uopd_program_seconds_total", {name, "device"}), 0);
  EXPECT_EQ(Value("uopd_program_waits_total", {name}), 0);
  use->Add(Outcome::kOk, parts);
  use->Add(Outcome::kFailed, parts);
  use->Add(Outcome::kOk, RequestParts::Of(500'000'000, {}));  // no wait of over a second
  usage.Publish();
  EXPECT_EQ(Value("uopd_program_waits_total", {name}), 2);
  EXPECT_EQ(Value("uopd_program_requests_total", {"other", "ok"}), 1);
  EXPECT_EQ(Value("uopd_program_requests_total", {name, "ok"}), 2);
  EXPECT_EQ(Value("uopd_program_requests_total", {name, "failed"}), 1);
  EXPECT_DOUBLE_EQ(Value("uopd_program_seconds_total", {name, "device"}), 2);
  EXPECT_DOUBLE_EQ(Value("uopd_program_seconds_total", {name, "queue"}), 1);
  EXPECT_DOUBLE_EQ(Value("uopd_program_seconds_total", {name, "other"}), 3.5);
}

TEST(KernelUseTest, WhatTuningSaved) {
  KernelUsage usage;
  const auto use = usage.Get({"saving", "k"});
  use->Add(1e9, 1);
  usage.Publish();
  const double before = std::max(Value("uopd_saved_seconds_total", {"tuning"}), 0.0);
  use->Add(2e9, 1, 1.5);
  use->Add(2e9, 1, 1);
  usage.Publish();
  EXPECT_DOUBLE_EQ(Value("uopd_kernel_saved_seconds_total", {"saving", "k"}), 1);
  EXPECT_DOUBLE_EQ(Value("uopd_saved_seconds_total", {"tuning"}) - before, 1);
}

TEST(BusyTimeTest, RunsAtTheSameTimeCountOnce) {
  BusyTime busy;
  EXPECT_EQ(busy.TakeNs(), 0);
  const int64_t begin = NowNs();
  busy.Begin();
  busy.Begin();
  EXPECT_EQ(busy.runs(), 2);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const int64_t first = busy.TakeNs();  // of runs that go on
  busy.End();
  busy.End();
  const int64_t all = first + busy.TakeNs();
  EXPECT_GE(first, 2'000'000);
  EXPECT_LE(all, NowNs() - begin);
  EXPECT_EQ(busy.TakeNs(), 0);
}

TEST(ProcessStatTest, ReadsALineWithAnyName) {
  ProcessStat stat;
  ASSERT_TRUE(
      stat.Parse("42 (a) b (c)) S 7 1 1 0 -1 4194560 100 200 3 4 50 60 70 80 20 0 1 0 "
                 "12345 1000000 25 18446744073709551615 1 1"));
  EXPECT_EQ(stat.name, "a) b (c)");
  EXPECT_EQ(stat.parent, 7);
  const int64_t tick_ns = 1'000'000'000 / sysconf(_SC_CLK_TCK);
  EXPECT_EQ(stat.cpu_ns, 110 * tick_ns);
  EXPECT_EQ(stat.children_cpu_ns, 150 * tick_ns);
  EXPECT_EQ(stat.resident_bytes, 25 * sysconf(_SC_PAGESIZE));
}

TEST(ProcessStatTest, RefusesWhatIsCut) {
  ProcessStat stat;
  for (const char* text : {"", "42", "42 (name", "42 (name) S 7 1", "42 )name( S"})
    EXPECT_FALSE(stat.Parse(text)) << text;
}

}  // namespace
}  // namespace uopd::engine
