// SPDX-License-Identifier: MIT
// Random graphs with random parts of them in pieces of random sizes on 2 to 4 devices compute what
// the graphs on one device do, and no kernel touches memory of another device.
// UOPD_FUZZ_GRAPHS sets how many, UOPD_FUZZ_SEED where they begin.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/ir/io/print.h"
#include "core/ir/verify/spec.h"
#include "core/schedule/schedule.h"
#include "tests/support/environment.h"
#include "tests/support/schedule_interpreter.h"
#include "tests/support/sharded_graph.h"

namespace uopd {
namespace {

void CheckSame(const std::vector<test::HostArray>& got, const std::vector<test::HostArray>& want,
               const test::GeneratedGraph& g) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (got[i].values.empty()) continue;  // not used by the graph
    const std::vector<double> a = got[i].ToDoubles(), b = want[i].ToDoubles();
    ASSERT_EQ(a.size(), b.size());
    for (size_t at : g.visible[i]) ASSERT_EQ(a[at], b[at]) << "slot " << i << " element " << at;
  }
}

void CheckDevices(const schedule::Schedule& s) {
  auto device = [&](const schedule::BufferRef& b) {
    const auto i = static_cast<size_t>(b.index);
    return b.kind == schedule::BufferRef::kArgument ? s.slots[i].device : s.temporaries[i].device;
  };
  for (size_t i = 0; i < s.items.size(); ++i) {
    const schedule::Item& item = s.items[i];
    if (item.kind == schedule::Item::kCopy) {
      EXPECT_EQ(device(item.buffers[0]), item.device);
      EXPECT_NE(device(item.buffers[0]), device(item.buffers[1])) << "item " << i;
      continue;
    }
    for (const schedule::BufferRef& b : item.buffers)
      ASSERT_EQ(device(b), item.device) << "item " << i;
  }
}

TEST(MultiDeviceFuzz, AgreesWithOneDevice) {
  const int graphs = test::CasesFromEnvironment("UOPD_FUZZ_GRAPHS", 1500),
            start = test::FromEnvironment("UOPD_FUZZ_SEED", 0);
  int copies = 0, kernels = 0;
  for (int seed = start; seed < start + graphs; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    ir::UOpContext ctx;
    const test::GeneratorOptions generator = {.ops = 4 + seed % 30, .symbolic = seed % 4 == 1};
    const auto g = test::GenerateGraph(ctx, static_cast<uint64_t>(seed), generator);
    const auto want = test::TensorInterpreter(ctx).Run(g.sink, g.slots, g.variables);
    ASSERT_TRUE(want.ok()) << StatusText(want.status());
    const auto sharded = test::ShardGraph(ctx, g, static_cast<uint64_t>(seed), 2 + seed % 3);
    const absl::Status valid = ir::Verify(ctx, sharded.sink, ir::Level::kTensor);
    ASSERT_TRUE(valid.ok()) << StatusText(valid);

    const auto meant = test::TensorInterpreter(ctx).Run(sharded.sink, sharded.slots, g.variables);
    ASSERT_TRUE(meant.ok()) << StatusText(meant.status());
    const auto meant_slots = test::JoinSlots(g, sharded, *meant);
    ASSERT_TRUE(meant_slots.ok()) << StatusText(meant_slots.status());
    CheckSame(*meant_slots, *want, g);
    ASSERT_FALSE(::testing::Test::HasFailure()) << ir::Print(ctx, sharded.sink);

    schedule::Options options;
    options.realise_cost = seed % 2 ? 32 : 0;
    options.ring_threshold = seed % 5 ? 256'000 : 2;
    const auto schedule = schedule::MakeSchedule(ctx, sharded.sink, options);
    ASSERT_TRUE(schedule.ok()) << StatusText(schedule.status()) << ir::Print(ctx, sharded.sink);
    CheckDevices(*schedule);
    for (const schedule::Item& item : schedule->items)
      ++(item.kind == schedule::Item::kCopy ? copies : kernels);
    if (!g.variables.empty() || seed % 8 == 0) {
      ASSERT_EQ(test::FindLeak(*schedule, sharded.slots, g.variables), "")
          << ir::Print(ctx, sharded.sink);
    }
    const auto ran = test::RunSchedule(*schedule, sharded.slots, g.variables);
    ASSERT_TRUE(ran.ok()) << StatusText(ran.status()) << ir::Print(ctx, sharded.sink);
    const auto got = test::JoinSlots(g, sharded, *ran);
    ASSERT_TRUE(got.ok()) << StatusText(got.status()) << ir::Print(ctx, sharded.sink);
    CheckSame(*got, *want, g);
    ASSERT_FALSE(::testing::Test::HasFailure()) << ir::Print(ctx, sharded.sink);
  }
  EXPECT_GT(copies, graphs);
  EXPECT_GT(kernels, graphs);
}

}  // namespace
}  // namespace uopd
