// SPDX-License-Identifier: MIT
#include "server/engine/operate/tune_state.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/base/text.h"

namespace uopd::engine {
namespace {

// A small number for each of three kernels, at the end of the encoded state. Older daemons wrote
// none.
constexpr size_t kDuplicateBytes = 3;

TuneState SomeState() {
  TuneState out;
  out.id = "0123abcd", out.tenant = "alice", out.request_id = "r", out.title = "model <1>";
  out.graph = HashBytes("graph");
  out.options = {.fast_math = true, .allow_f16 = true, .beam = 7, .ignore_beam_cache = true};
  out.budget_us = 5'000'000, out.budget_candidates = 77, out.created_us = 1'700'000'000'000'000;
  out.phase = TunePhase::kInterrupted, out.error = "why", out.attempts = 3;
  out.ended_us = 1'700'000'000'000'001, out.spent_us = 1234, out.candidates = 55;
  for (int i = 0; i < 3; ++i) {
    TunedKernelState& k = out.kernels.emplace_back();
    k.graph = HashBytes(Cat("kernel", i)), k.name = Cat("k", i), k.device = "CPU:0";
    k.launches = 4, k.estimate_s = 1e-6, k.phase = static_cast<KernelPhase>(i * 3);
    k.detail = "detail", k.opts = "[UPCAST(0, 4)]", k.best_s = 1e-7 * i;
    k.measured = 9, k.failed = 2, k.pruned = 1, k.duplicates = 4 + i, k.search_us = 10,
    k.search = 2, k.limited = i == 1;
    for (uint32_t p = 1; p <= 5; ++p) k.points.push_back({p, 1e-6 / p});
  }
  return out;
}

TEST(TuneStateTest, ComesBackAsItWas) {
  const TuneState want = SomeState();
  const auto got = TuneState::Decode(want.Encode());
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->Encode(), want.Encode());
  EXPECT_EQ(got->id, want.id);
  EXPECT_EQ(got->tenant, want.tenant);
  EXPECT_EQ(got->title, want.title);
  EXPECT_EQ(got->graph, want.graph);
  EXPECT_EQ(got->options, want.options);
  EXPECT_EQ(got->budget_us, want.budget_us);
  EXPECT_EQ(got->budget_candidates, want.budget_candidates);
  EXPECT_EQ(got->phase, want.phase);
  EXPECT_EQ(got->attempts, want.attempts);
  EXPECT_EQ(got->spent_us, want.spent_us);
  ASSERT_EQ(got->kernels.size(), 3u);
  EXPECT_EQ(got->kernels[2].phase, KernelPhase::kSkipped);
  EXPECT_EQ(got->kernels[1].points, want.kernels[1].points);
  EXPECT_EQ(got->kernels[1].best_s, want.kernels[1].best_s);
  EXPECT_TRUE(got->kernels[1].limited);
  EXPECT_EQ(got->kernels[1].pruned, 1u);
  EXPECT_EQ(got->kernels[1].duplicates, 5u);
  // What nothing is known about stays so.
  EXPECT_EQ(TuneState::Decode(TuneState{.kernels = {{}}}.Encode())->kernels[0].best_s,
            std::numeric_limits<double>::infinity());
}

TEST(TuneStateTest, StatesOfOlderDaemonsAreRead) {
  TuneState state = SomeState();
  const std::string whole = state.Encode(), old = whole.substr(0, whole.size() - kDuplicateBytes);
  for (TunedKernelState& k : state.kernels) k.duplicates = 0;
  const auto got = TuneState::Decode(old);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->Encode(), state.Encode());
}

TEST(TuneStateTest, EveryPrefixAndEveryAdditionIsDamage) {
  const std::string whole = SomeState().Encode();
  for (size_t n = 0; n < whole.size(); ++n) {
    if (n == whole.size() - kDuplicateBytes) continue;  // the whole state of an older daemon
    EXPECT_TRUE(absl::IsDataLoss(TuneState::Decode(whole.substr(0, n)).status())) << n;
  }
  EXPECT_TRUE(absl::IsDataLoss(TuneState::Decode(whole + '\0').status()));
  // No byte that is changed does more than harm the state.
  for (size_t n = 0; n < whole.size(); ++n) {
    std::string bad = whole;
    bad[n] = static_cast<char>(bad[n] ^ 0xff);
    TuneState::Decode(bad).status().IgnoreError();
  }
}

TEST(TuneStateTest, PointsAreBoundedAndTheBestOnesStay) {
  TunedKernelState k;
  std::vector<TunePoint> best;
  for (uint32_t i = 1; i <= 5000; ++i) {
    // Every 250th is the fastest so far; the others are slower.
    const bool fastest = i % 250 == 1;
    const TunePoint point{i, fastest ? 1.0 / i : 2.0 + i % 7};
    if (fastest) best.push_back(point);
    k.AddPoint(point, 64);
    ASSERT_LE(k.points.size(), 64u);
    ASSERT_EQ(k.points.back(), point);
  }
  EXPECT_GE(k.points.size(), 24u);
  for (const TunePoint& point : best)
    EXPECT_NE(std::ranges::find(k.points, point), k.points.end()) << point.candidate;
  EXPECT_TRUE(std::ranges::is_sorted(k.points, {}, &TunePoint::candidate));
  // Also if every point is the fastest so far.
  TunedKernelState falling;
  for (uint32_t i = 1; i <= 1000; ++i) {
    falling.AddPoint({i, 1.0 / i}, 8);
    ASSERT_LE(falling.points.size(), 8u);
    ASSERT_EQ(falling.points.back().candidate, i);
  }
}

}  // namespace
}  // namespace uopd::engine
