// SPDX-License-Identifier: MIT
// What a byte of a graph can cost: processor time and memory of mutated graphs through decode,
// verify and schedule, against a bound that is linear in their bytes.
//
// Time is that of the thread, so that a loaded machine changes little; bounds are some ten times
// what is usual, which is far below what quadratic work costs a graph of this size. UOPD_FUZZ_COSTS
// sets how many graphs, UOPD_FUZZ_SEED where they begin; a failure names its seed, and
// `UOPD_FUZZ_COSTS=1 UOPD_FUZZ_SEED=n` repeats it alone.
#include <gtest/gtest.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>

#include "core/base/interrupt.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "core/schedule/schedule.h"
#include "tests/fuzz/graph_corpus.h"
#include "tests/fuzz/graph_mutator.h"
#include "tests/fuzz/memory_meter.h"
#include "tests/support/environment.h"

namespace uopd {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSlower = 20;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr double kSlower = 20;
#else
constexpr double kSlower = 1;
#endif
#else
constexpr double kSlower = 1;
#endif

double Now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// base + each * bytes.
struct Bound {
  double base, each;
  double Of(size_t bytes) const { return base + each * static_cast<double>(bytes); }
};
constexpr Bound kReadSeconds = {0.003, 1e-6};
constexpr Bound kScheduleSeconds = {0.05, 30e-6};
constexpr Bound kReadMemory = {128 << 10, 100};
constexpr Bound kScheduleMemory = {2 << 20, 5'000};

struct Worst {
  double share = 0;  // of its bound
  int64_t seed = -1;
  void See(double cost, double bound, int64_t s) {
    if (cost / bound > share) share = cost / bound, seed = s;
  }
};

TEST(GraphCost, IsLinearInTheBytesOfAGraph) {
  const int64_t graphs = test::CasesFromEnvironment("UOPD_FUZZ_COSTS", 3000),
                start = test::FromEnvironment("UOPD_FUZZ_SEED", 1);
  const auto corpus = fuzz::Corpus({});
  Worst read_time, read_memory, schedule_time, schedule_memory;
  int64_t scheduled = 0;
  for (int64_t seed = start; seed < start + graphs; ++seed) {
    // Few are large: they take the time.
    fuzz::GraphMutator mutator(static_cast<uint64_t>(seed), seed % 20 == 0 ? 10'000 : 1'000);
    const v1::Graph& from = corpus[mutator.Below(corpus.size())];
    const v1::Graph& other = corpus[mutator.Below(corpus.size())];
    const std::string bytes = mutator.Mutate(from, other);
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ", " << bytes.size() << " bytes");

    test::MemoryMeter memory;
    double begin = Now();
    ir::UOpContext ctx;
    const auto sink = ir::Decode(ctx, bytes, ir::Level::kTensor);
    const double read = Now() - begin;
    EXPECT_LT(read, kSlower * kReadSeconds.Of(bytes.size())) << "decode and verify";
    read_time.See(read, kReadSeconds.Of(bytes.size()), seed);
    EXPECT_LT(memory.peak(), kSlower * kReadMemory.Of(bytes.size())) << "decode and verify";
    read_memory.See(memory.peak(), kReadMemory.Of(bytes.size()), seed);
    if (!sink.ok()) {
      EXPECT_FALSE(absl::IsInternal(sink.status())) << StatusText(sink.status());
      continue;
    }
    // What takes longer than this has failed already.
    Interrupt interrupt({.deadline = Interrupt::Clock::now() + std::chrono::seconds(60)});
    ctx.set_interrupt(&interrupt);
    begin = Now();
    const auto schedule = schedule::MakeSchedule(ctx, *sink, {});
    const double took = Now() - begin;
    EXPECT_FALSE(absl::IsInternal(schedule.status())) << StatusText(schedule.status());
    EXPECT_LT(took, kSlower * kScheduleSeconds.Of(bytes.size())) << "schedule";
    schedule_time.See(took, kScheduleSeconds.Of(bytes.size()), seed);
    EXPECT_LT(memory.peak(), kSlower * kScheduleMemory.Of(bytes.size())) << "schedule";
    schedule_memory.See(memory.peak(), kScheduleMemory.Of(bytes.size()), seed);
    scheduled += schedule.ok() ? 1 : 0;
  }
  std::printf(
      "%lld graphs, %lld scheduled; largest shares of the bounds (and their seeds): read %.2f "
      "of time (%lld), %.2f of memory (%lld); schedule %.2f (%lld), %.2f (%lld)\n",
      static_cast<long long>(graphs), static_cast<long long>(scheduled), read_time.share,
      static_cast<long long>(read_time.seed), read_memory.share,
      static_cast<long long>(read_memory.seed), schedule_time.share,
      static_cast<long long>(schedule_time.seed), schedule_memory.share,
      static_cast<long long>(schedule_memory.seed));
  EXPECT_TRUE(graphs < 100 || scheduled > graphs / 20)
      << "only " << scheduled << " graphs got beyond the verifier";
}

}  // namespace
}  // namespace uopd
