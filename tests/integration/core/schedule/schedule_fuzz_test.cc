// SPDX-License-Identifier: MIT
// Random graphs: what the schedule computes is what the tensor interpreter computes.
// UOPD_FUZZ_GRAPHS sets how many, UOPD_FUZZ_SEED where they begin.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "core/base/digest.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"
#include "core/schedule/schedule.h"
#include "tests/support/environment.h"
#include "tests/support/graph_generator.h"
#include "tests/support/schedule_interpreter.h"

namespace uopd {
namespace {

test::GeneratorOptions OptionsOf(int seed) {
  test::GeneratorOptions options;
  options.ops = seed % 7 == 0 ? 60 : 4 + seed % 30;
  options.symbolic = seed % 4 == 1;
  options.devices = seed % 5 == 2;
  return options;
}

// From many kernels to few, and sometimes few buffers for each.
schedule::Options ScheduleOptionsOf(int seed) {
  schedule::Options options;
  options.realise_cost = seed % 3 == 0 ? 0 : seed % 3 == 1 ? 4 : 32;
  if (seed % 6 == 5) options.limits.max_buffers = 4;
  // The graphs are too small for threads and launches to matter, which would hide all else.
  options.launch_cost = seed % 5 == 0 ? 500 : 0;
  options.limits.threads = seed % 4 == 0 ? 2 : 1;
  if (seed % 8 == 6) options.stage_bytes = 64;
  if (seed % 9 == 4) options.limits.max_instructions = 5 + seed % 60;
  if (seed % 11 == 3) options.limits.max_loops = 1 + seed % 4;
  return options;
}

int StagesIn(const schedule::Item& item) {
  if (item.kind != schedule::Item::kKernel) return 0;
  ir::UOpContext ctx;
  const auto sink = ir::Decode(ctx, item.graph, ir::Level::kKernel);
  EXPECT_TRUE(sink.ok()) << StatusText(sink.status());
  if (!sink.ok()) return 0;
  int n = 0;
  for (ir::UOp u : ir::Toposort(ctx, *sink)) n += u.Is(ir::Op::STAGE) ? 1 : 0;
  return n;
}

TEST(ScheduleFuzz, AgreesWithTheTensorInterpreter) {
  const int graphs = test::CasesFromEnvironment("UOPD_FUZZ_GRAPHS", 2000),
            start = test::FromEnvironment("UOPD_FUZZ_SEED", 0);
  int stages = 0, kernels_with_several = 0;
  for (int seed = start; seed < start + graphs; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    ir::UOpContext ctx;
    const test::GeneratedGraph g =
        test::GenerateGraph(ctx, static_cast<uint64_t>(seed), OptionsOf(seed));
    const absl::Status valid = ir::Verify(ctx, g.sink, ir::Level::kTensor);
    ASSERT_TRUE(valid.ok()) << StatusText(valid);
    const schedule::Options options = ScheduleOptionsOf(seed);
    const auto schedule = schedule::MakeSchedule(ctx, g.sink, options);
    ASSERT_TRUE(schedule.ok()) << StatusText(schedule.status()) << ir::Print(ctx, g.sink);
    const auto stored = schedule::Schedule::Decode(schedule->Encode());
    ASSERT_TRUE(stored.ok());
    for (const schedule::Item& item : stored->items) {
      ASSERT_LE(item.buffers.size(), static_cast<size_t>(options.limits.max_buffers))
          << ir::Print(ctx, g.sink);
    }
    for (const schedule::Item& item : stored->items) {
      const int here = StagesIn(item);
      stages += here, kernels_with_several += here > 1 ? 1 : 0;
    }
    for (const test::GeneratedGraph& v : test::WithOtherVariables(ctx, g)) {
      const auto want = test::TensorInterpreter(ctx).Run(v.sink, v.slots, v.variables);
      ASSERT_TRUE(want.ok()) << StatusText(want.status());
      // Most leaks come with variable sizes and with copies, and each look runs the schedule twice.
      if (!v.variables.empty() || OptionsOf(seed).devices || seed % 8 == 0) {
        ASSERT_EQ(test::FindLeak(*stored, v.slots, v.variables), "") << ir::Print(ctx, g.sink);
      }
      const auto got = test::RunSchedule(*stored, v.slots, v.variables);
      ASSERT_TRUE(got.ok()) << StatusText(got.status()) << ir::Print(ctx, g.sink);
      for (size_t i = 0; i < want->size(); ++i) {
        const std::vector<double> a = (*got)[i].ToDoubles(), b = (*want)[i].ToDoubles();
        for (size_t at : v.visible[i])
          ASSERT_EQ(a[at], b[at]) << "slot " << i << " element " << at << "\n"
                                  << ir::Print(ctx, g.sink);
      }
    }
  }
  std::printf("%d staged values, %d kernels with several\n", stages, kernels_with_several);
  if (graphs >= 1000) {
    EXPECT_GT(stages, graphs / 4);
    EXPECT_GT(kernels_with_several, graphs / 50);
  }
}

TEST(ScheduleFuzz, SameGraphGivesSameBytes) {
  for (int seed = 0; seed < 200; ++seed) {
    std::string first;
    for (int attempt = 0; attempt < 2; ++attempt) {
      ir::UOpContext ctx;
      if (attempt == 1) ir::Variable(ctx, "shifts_every_id", 0, 9);
      const test::GeneratedGraph g =
          test::GenerateGraph(ctx, static_cast<uint64_t>(seed), OptionsOf(seed));
      const auto schedule = schedule::MakeSchedule(ctx, g.sink, ScheduleOptionsOf(seed));
      ASSERT_TRUE(schedule.ok()) << StatusText(schedule.status()) << ir::Print(ctx, g.sink);
      if (attempt == 0)
        first = schedule->Encode();
      else
        EXPECT_EQ(schedule->Encode(), first) << "seed " << seed;
    }
  }
}

// Two processes, with other addresses and hash seeds each.
TEST(ScheduleFuzz, EveryProcessGivesTheSameBytes) {
  if (std::getenv("UOPD_PRINT_DIGEST") != nullptr) {
    Hasher hasher;
    for (int seed = 0; seed < 1000; ++seed) {
      ir::UOpContext ctx;
      const test::GeneratedGraph g =
          test::GenerateGraph(ctx, static_cast<uint64_t>(seed), OptionsOf(seed));
      const auto schedule = schedule::MakeSchedule(ctx, g.sink, ScheduleOptionsOf(seed));
      ASSERT_TRUE(schedule.ok());
      hasher.Update(schedule->Encode());
    }
    std::printf("digest %s\n", hasher.Finish().Hex().c_str());
    return;
  }
  std::string digests[2];
  for (std::string& digest : digests) {
    FILE* child = popen(
        "env -u GTEST_TOTAL_SHARDS -u GTEST_SHARD_INDEX UOPD_PRINT_DIGEST=1 /proc/$PPID/exe "
        "--gtest_filter=ScheduleFuzz.EveryProcess*",
        "r");
    ASSERT_NE(child, nullptr);
    std::array<char, 256> line;
    while (std::fgets(line.data(), line.size(), child) != nullptr) {
      if (std::string_view(line.data()).starts_with("digest ")) digest = line.data();
    }
    ASSERT_EQ(pclose(child), 0);
    ASSERT_EQ(digest.size(), 72u) << digest;
  }
  EXPECT_EQ(digests[0], digests[1]);
}

}  // namespace
}  // namespace uopd
