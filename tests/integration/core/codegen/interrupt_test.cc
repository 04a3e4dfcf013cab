// SPDX-License-Identifier: MIT
// Cancels the whole compiler at random moments: decode, verify, schedule, codegen and render stop
// soon, with CANCELLED, or give what they give undisturbed.
#include <gtest/gtest.h>

#include <ctime>
#include <functional>
#include <random>

#include "core/base/interrupt.h"
#include "core/base/text.h"
#include "core/codegen/codegen.h"
#include "core/ir/build.h"
#include "core/ir/io/wire.h"
#include "core/render/formats.h"
#include "core/schedule/schedule.h"
#include "tests/support/graph_generator.h"
#include "tests/support/model_graphs.h"

namespace uopd {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kLatencyNs = 1'000'000'000;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr int64_t kLatencyNs = 1'000'000'000;
#else
constexpr int64_t kLatencyNs = 50'000'000;
#endif
#elif !defined(NDEBUG)
constexpr int64_t kLatencyNs = 500'000'000;
#else
constexpr int64_t kLatencyNs = 50'000'000;
#endif

// Of this thread: others on the machine do not count.
int64_t CpuNs() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// Everything that is made of a graph, as one text.
absl::StatusOr<std::string> Compile(const std::string& graph, Interrupt* maybe_interrupt,
                                    size_t max_kernels = 6) {
  ir::UOpContext ctx;
  ctx.set_interrupt(maybe_interrupt);
  UOPD_ASSIGN(const ir::UOp sink, ir::Decode(ctx, graph, ir::Level::kTensor));
  std::string out = ir::Encode(ctx, sink);
  UOPD_TRY(ctx.CheckInterrupt());
  UOPD_ASSIGN(const schedule::Schedule made, schedule::MakeSchedule(ctx, sink, {}));
  out += made.Encode();
  size_t kernels = 0;
  for (const schedule::Item& item : made.items) {
    if (item.kind != schedule::Item::kKernel || kernels++ == max_kernels) continue;
    ir::UOpContext mine;
    mine.set_interrupt(maybe_interrupt);
    UOPD_ASSIGN(const ir::UOp kernel, ir::Decode(mine, item.graph, ir::Level::kKernel));
    UOPD_ASSIGN(const codegen::LoweredKernel lowered, codegen::Lower(mine, kernel, {}, {}));
    UOPD_ASSIGN(const std::string llvm,
                render::RenderLlvmIr(mine, lowered.linear, lowered.name, lowered.variables));
    UOPD_ASSIGN(const std::string c,
                render::RenderC(mine, lowered.linear, lowered.name, lowered.variables));
    out += llvm + c;
  }
  return out;
}

struct Longest {
  int64_t ns = 0;
  std::string of;
};

void CancelAtRandom(const std::string& name, const std::string& graph, int times,
                    std::mt19937_64& random, Longest& longest) {
  SCOPED_TRACE(name);
  const int64_t begin = CpuNs();
  const auto whole = Compile(graph, nullptr);
  const int64_t takes = CpuNs() - begin;
  ASSERT_TRUE(whole.ok()) << StatusText(whole.status());
  int cancelled = 0;
  for (int i = 0; i < times; ++i) {
    // Somewhere in the i-th of equal parts.
    const auto part = static_cast<int64_t>(random() % static_cast<uint64_t>(takes));
    const int64_t at = CpuNs() + (takes * i + part) / times;
    Interrupt interrupt({.cancelled = [&] { return CpuNs() >= at; }});
    const auto got = Compile(graph, &interrupt);
    const int64_t late = CpuNs() - at;
    if (got.ok()) {
      ASSERT_EQ(*got, *whole);
      ASSERT_FALSE(interrupt.raised());
      continue;
    }
    ++cancelled;
    ASSERT_TRUE(absl::IsCancelled(got.status())) << StatusText(got.status());
    if (late > longest.ns) longest = {late, Cat(name, " at ", i, " of ", times)};
    EXPECT_LT(late, kLatencyNs) << "at " << i << " of " << times;
  }
  EXPECT_GT(cancelled, times / 3);
  const auto again = Compile(graph, nullptr);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *whole);
}

using Make = std::function<ir::UOp(ir::UOpContext&)>;

std::string Encoded(const Make& make) {
  ir::UOpContext ctx;
  return ir::Encode(ctx, make(ctx));
}

ir::UOp ViewChain(ir::UOpContext& ctx, int n) {
  test::GraphBuilder b(ctx);
  ir::UOp x = b.Input({12, 10, 14});
  for (int i = 0; i < n; ++i) {
    x = b.Permute(x, {1, 2, 0});
    x = b.Reshape(x, i % 2 == 0 ? ir::Dims{14, 12, 10} : ir::Dims{12, 10, 14});
    const int64_t axis = i % 3;
    x = ctx.Make(ir::Op::FLIP, x.dtype(), {x}, ctx.Data({axis}));
  }
  b.Output(x);
  return b.Finish();
}

ir::UOp AddChain(ir::UOpContext& ctx, int n) {
  test::GraphBuilder b(ctx);
  ir::UOp x = b.Input({16});
  const ir::UOp y = b.Input({16});
  for (int i = 0; i < n; ++i) x = ir::Add(ctx, ir::Mul(ctx, x, b.Const(x, 1 + i)), y);
  b.Output(x);
  return b.Finish();
}

ir::UOp ManyStores(ir::UOpContext& ctx, int n) {
  test::GraphBuilder b(ctx);
  const ir::UOp x = b.Input({32});
  for (int i = 0; i < n; ++i) b.Output(ir::Add(ctx, x, b.Const(x, i)));
  return b.Finish();
}

TEST(InterruptTest, EveryPhaseOfModelsStopsSoon) {
  std::mt19937_64 random(7);
  Longest longest;
  const std::vector<std::pair<std::string, Make>> graphs = {
      {"transformer", [](auto& c) { return test::TransformerGraph(c, 2, 64, 128, 4); }},
      {"resnet", [](auto& c) { return test::ResNetGraph(c, 2, 2, 8, 16); }},
      {"adam", [](auto& c) { return test::AdamGraph(c, 30, 32, 32); }},
      {"chain of views", [](auto& c) { return ViewChain(c, 30); }},
      {"chain of additions", [](auto& c) { return AddChain(c, 1500); }},
      {"stores", [](auto& c) { return ManyStores(c, 2000); }},
  };
  for (const auto& [name, make] : graphs) CancelAtRandom(name, Encoded(make), 8, random, longest);
  std::printf("longest: %.2f ms, %s\n", static_cast<double>(longest.ns) * 1e-6, longest.of.c_str());
}

TEST(InterruptTest, EveryPollOfRandomGraphsMayBeTheLast) {
  std::mt19937_64 random(11);
  int stopped = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    test::GeneratorOptions options;
    options.ops = 4 + static_cast<int>(seed % 30);
    options.symbolic = seed % 4 == 1, options.devices = seed % 5 == 2;
    ir::UOpContext ctx;
    const std::string graph = ir::Encode(ctx, test::GenerateGraph(ctx, seed, options).sink);
    uint64_t polls = 0;
    Interrupt counter({.cancelled = [&] { return ++polls, false; }});
    counter.LookAtEveryPoll();
    const auto whole = Compile(graph, &counter);
    ASSERT_TRUE(whole.ok()) << StatusText(whole.status());
    ASSERT_GT(polls, 10U);
    for (int i = 0; i < 12; ++i) {
      const uint64_t last = random() % polls;
      uint64_t n = 0;
      Interrupt interrupt({.cancelled = [&] { return n++ >= last; }});
      interrupt.LookAtEveryPoll();
      const auto got = Compile(graph, &interrupt);
      ASSERT_FALSE(got.ok());
      ASSERT_TRUE(absl::IsCancelled(got.status())) << StatusText(got.status());
      ++stopped;
    }
    const auto again = Compile(graph, nullptr);
    ASSERT_TRUE(again.ok());
    ASSERT_EQ(*again, *whole);
  }
  EXPECT_EQ(stopped, 30 * 12);
}

}  // namespace
}  // namespace uopd
