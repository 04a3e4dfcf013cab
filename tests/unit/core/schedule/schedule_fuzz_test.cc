// SPDX-License-Identifier: MIT
// Random graphs: what the schedule computes is what the tensor interpreter computes.
// UOPD_FUZZ_GRAPHS sets how many.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/ir/build.h"
#include "core/ir/print.h"
#include "core/ir/spec.h"
#include "core/schedule/schedule.h"
#include "tests/support/graph_generator.h"
#include "tests/support/schedule_interpreter.h"

namespace uopd {
namespace {

TEST(ScheduleFuzz, AgreesWithTheTensorInterpreter) {
  const char* env = std::getenv("UOPD_FUZZ_GRAPHS");
  const int graphs = env != nullptr ? std::atoi(env) : 400;
  const char* first = std::getenv("UOPD_FUZZ_SEED");
  const int start = first != nullptr ? std::atoi(first) : 0;
  for (int seed = start; seed < start + graphs; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    ir::UOpContext ctx;
    const testing::GeneratedGraph g =
        testing::GenerateGraph(ctx, static_cast<uint64_t>(seed), 4 + seed % 30);
    const absl::Status valid = ir::Verify(ctx, g.sink, ir::Stage::kTensor);
    ASSERT_TRUE(valid.ok()) << StatusText(valid);
    const auto want = testing::TensorInterpreter(ctx).Run(g.sink, g.slots);
    ASSERT_TRUE(want.ok()) << StatusText(want.status());
    schedule::Options options;
    options.realise_cost = seed % 3 == 0 ? 0 : seed % 3 == 1 ? 4 : 32;  // from many kernels to few
    const auto schedule = schedule::MakeSchedule(ctx, g.sink, options);
    ASSERT_TRUE(schedule.ok()) << StatusText(schedule.status()) << ir::Print(ctx, g.sink);
    const auto stored = schedule::Schedule::Decode(schedule->Encode());
    ASSERT_TRUE(stored.ok());
    const auto got = testing::RunSchedule(*stored, g.slots);
    ASSERT_TRUE(got.ok()) << StatusText(got.status()) << ir::Print(ctx, g.sink);
    for (size_t i = 0; i < want->size(); ++i) {
      ASSERT_EQ((*got)[i].ToDoubles(), (*want)[i].ToDoubles()) << "slot " << i << "\n"
                                                               << ir::Print(ctx, g.sink);
    }
  }
}

TEST(ScheduleFuzz, SameGraphGivesSameBytes) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::string first;
    for (int attempt = 0; attempt < 2; ++attempt) {
      ir::UOpContext ctx;
      if (attempt == 1) ir::Variable(ctx, "shifts_every_id", 0, 9);
      const testing::GeneratedGraph g = testing::GenerateGraph(ctx, seed, 20);
      const auto schedule = schedule::MakeSchedule(ctx, g.sink, {});
      ASSERT_TRUE(schedule.ok());
      if (attempt == 0)
        first = schedule->Encode();
      else
        EXPECT_EQ(schedule->Encode(), first) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace uopd
