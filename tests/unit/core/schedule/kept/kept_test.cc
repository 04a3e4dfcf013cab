// SPDX-License-Identifier: MIT
// Graphs divided by SplitKept: prologue and main graph together compute what the graph computes.
#include "core/schedule/kept/kept.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"
#include "core/schedule/prepare/round_products.h"
#include "core/schedule/schedule.h"
#include "tests/support/environment.h"
#include "tests/support/graph_generator.h"
#include "tests/support/model_graphs.h"
#include "tests/support/schedule_interpreter.h"

namespace uopd {
namespace {

using ir::Dims;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using test::GraphBuilder;
using test::HostArray;

// Two lanes and eight registers, so that graphs of few elements are worth packing.
Target SmallTarget() {
  Target target;
  target.vector_bytes = 8;
  target.vector_registers = 8;
  return target;
}

// The same with instructions that take two bf16 or four bytes of each operand.
Target WordTarget() {
  Target target = SmallTarget();
  target.matrix_instructions = {
      {"pairs", 1, 2, 2, DtypeNumber::BF16, DtypeNumber::BF16, DtypeNumber::F32},
      {"bytes", 1, 2, 4, DtypeNumber::U8, DtypeNumber::I8, DtypeNumber::I32}};
  return target;
}
schedule::Options RoundingTo(DtypeNumber dtype, const Target& target) {
  schedule::Options options;
  options.limits = schedule::KernelLimits::Of(target);
  options.allowed_products.Add(dtype);
  return options;
}

std::vector<bool> Slots(std::initializer_list<size_t> stable) {
  std::vector<bool> out;
  for (size_t i : stable) {
    out.resize(std::max(out.size(), i + 1));
    out[i] = true;
  }
  return out;
}

std::optional<schedule::KeptSplit> Split(ir::UOpContext& ctx, UOp sink,
                                         const std::vector<bool>& stable,
                                         const Target& target = SmallTarget()) {
  auto split = schedule::SplitKept(ctx, sink, stable, target, {});
  EXPECT_TRUE(split.ok()) << StatusText(split.status()) << ir::Print(ctx, sink);
  return split.ok() ? *split : std::nullopt;
}

int Count(const ir::UOpContext& ctx, UOp root, Op op) {
  int n = 0;
  for (UOp u : ir::Toposort(ctx, root)) n += u.Is(op) ? 1 : 0;
  return n;
}
std::set<int64_t> SlotsOf(const ir::UOpContext& ctx, UOp root) {
  std::set<int64_t> out;
  for (UOp u : ir::Toposort(ctx, root)) {
    if (u.Is(Op::PARAM)) out.insert(u.slot());
  }
  return out;
}
HostArray KeptSlot(ir::UOpContext& ctx, const schedule::KeptSplit& split, int64_t slot) {
  for (UOp u : ir::Toposort(ctx, split.prologue)) {
    if (u.Is(Op::PARAM) && u.slot() == slot)
      return HostArray::Zeros(u.dtype(), *ir::StaticDims(*ctx.ShapeOf(u)));
  }
  ADD_FAILURE() << "no kept slot " << slot;
  return {};
}

// The slots after the prologue and the main graph, as schedules and as they are.
std::vector<HostArray> RunSplit(ir::UOpContext& ctx, const schedule::KeptSplit& split,
                                std::vector<HostArray> slots, const test::Variables& variables,
                                bool scheduled, const Target& target = SmallTarget()) {
  slots.resize(static_cast<size_t>(split.first_slot));
  for (int64_t i = 0; i < split.slots; ++i)
    slots.push_back(KeptSlot(ctx, split, split.first_slot + i));
  for (UOp graph : {split.prologue, split.main}) {
    absl::StatusOr<std::vector<HostArray>> next;
    if (scheduled) {
      schedule::Options options;
      options.limits = schedule::KernelLimits::Of(target);
      const auto schedule = schedule::MakeSchedule(ctx, graph, options);
      EXPECT_TRUE(schedule.ok()) << StatusText(schedule.status());
      if (!schedule.ok()) return {};
      next = test::RunSchedule(*schedule, slots, variables);
    } else {
      next = test::TensorInterpreter(ctx).Run(graph, slots, variables);
    }
    EXPECT_TRUE(next.ok()) << StatusText(next.status());
    if (!next.ok()) return {};
    slots = *std::move(next);
  }
  return slots;
}

TEST(Kept, RandomGraphsComputeTheSame) {
  const int64_t graphs = test::CasesFromEnvironment("UOPD_FUZZ_GRAPHS", 1500),
                start = test::FromEnvironment("UOPD_FUZZ_SEED", 0);
  int split_graphs = 0;
  for (int64_t seed = start; seed < start + graphs; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    ir::UOpContext ctx;
    test::GeneratorOptions options;
    options.ops = 10 + static_cast<int>(seed % 40);
    options.symbolic = seed % 4 == 1;
    const test::GeneratedGraph g = test::GenerateGraph(ctx, static_cast<uint64_t>(seed), options);
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    std::set<int64_t> written;
    for (UOp u : ir::Toposort(ctx, g.sink)) {
      if (!u.Is(Op::STORE)) continue;
      for (int64_t slot : SlotsOf(ctx, u.src(0))) written.insert(slot);
    }
    std::vector<bool> stable(g.slots.size());
    for (size_t i = 0; i < stable.size(); ++i)
      stable[i] = !written.contains(static_cast<int64_t>(i)) && random() % 3 != 0;
    // Every second graph with rounded operands, and kept values in words.
    const Target target = seed % 2 == 0 ? SmallTarget() : WordTarget();
    const UOp rounded = seed % 2 == 0
                            ? g.sink
                            : schedule::RoundProducts(ctx, ir::Toposort(ctx, g.sink),
                                                      RoundingTo(DtypeNumber::BF16, target));
    const auto split = Split(ctx, rounded, stable, target);
    if (!split) continue;
    ++split_graphs;
    for (int64_t slot : SlotsOf(ctx, split->prologue))
      EXPECT_TRUE(slot >= split->first_slot || stable[static_cast<size_t>(slot)]);
    test::GeneratedGraph wanted = g;
    wanted.sink = rounded;
    for (const test::GeneratedGraph& v : test::WithOtherVariables(ctx, wanted)) {
      const auto want = test::TensorInterpreter(ctx).Run(v.sink, v.slots, v.variables);
      ASSERT_TRUE(want.ok()) << StatusText(want.status());
      for (const bool scheduled : {false, true}) {
        const auto got = RunSplit(ctx, *split, v.slots, v.variables, scheduled, target);
        ASSERT_GE(got.size(), want->size());
        for (size_t i = 0; i < want->size(); ++i) {
          const std::vector<double> a = got[i].ToDoubles(), b = (*want)[i].ToDoubles();
          for (size_t at : v.visible[i])
            ASSERT_EQ(a[at], b[at]) << "slot " << i << " element " << at << "\n"
                                    << ir::Print(ctx, v.sink);
        }
      }
    }
  }
  std::printf("%d of %d graphs keep values\n", split_graphs, static_cast<int>(graphs));
  if (graphs >= 1000) {
    EXPECT_GT(split_graphs, graphs / 20);
  }
}

std::vector<HostArray> Filled(ir::UOpContext& ctx, UOp sink, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<HostArray> out;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (!u.Is(Op::PARAM)) continue;
    const auto slot = static_cast<size_t>(u.slot());
    if (out.size() <= slot) out.resize(slot + 1);
    const Dims dims = *ir::StaticDims(*ctx.ShapeOf(u));
    std::vector<double> values(static_cast<size_t>(ir::Product(dims)));
    for (double& v : values) v = static_cast<double>(random() % 5) - 2;
    out[slot] = HostArray::Of(u.dtype(), dims, values);
  }
  return out;
}

void ExpectSame(ir::UOpContext& ctx, UOp sink, const schedule::KeptSplit& split,
                const Target& target = SmallTarget()) {
  const std::vector<HostArray> slots = Filled(ctx, sink, 1);
  const auto want = test::TensorInterpreter(ctx).Run(sink, slots);
  ASSERT_TRUE(want.ok()) << StatusText(want.status());
  for (const bool scheduled : {false, true}) {
    const auto got = RunSplit(ctx, split, slots, {}, scheduled, target);
    ASSERT_GE(got.size(), want->size());
    for (size_t i = 0; i < want->size(); ++i)
      EXPECT_EQ(got[i].ToBytes(), (*want)[i].ToBytes()) << "slot " << i;
  }
}

// Two convolutions with padding: the value between them is stored with its channels innermost.
TEST(Kept, ConvolutionsReadPackedWeightsAndChannelsInnermost) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  const UOp x = g.Input({2, 3, 6, 6}), w1 = g.Input({4, 3, 3, 3}), w2 = g.Input({6, 4, 3, 3});
  g.Output(g.Conv2d(g.Relu(g.Conv2d(x, w1, 1)), w2, 1));
  const UOp sink = g.Finish();
  const auto split = Split(ctx, sink, Slots({1, 2}));
  ASSERT_TRUE(split);
  EXPECT_EQ(split->slots, 2);
  EXPECT_EQ(split->first_slot, 4);
  EXPECT_EQ(split->bytes, 4 * (4 * 3 * 9 + 6 * 4 * 9));
  EXPECT_EQ(SlotsOf(ctx, split->main), (std::set<int64_t>{0, 3, 4, 5}));
  EXPECT_EQ(SlotsOf(ctx, split->prologue), (std::set<int64_t>{1, 2, 4, 5}));
  EXPECT_EQ(Count(ctx, split->main, Op::CONTIGUOUS), 1);
  for (UOp u : ir::Toposort(ctx, split->main)) {
    if (u.Is(Op::CONTIGUOUS)) {
      EXPECT_EQ(g.DimsOf(u), (Dims{2, 6, 6, 4}));
    }
    // [out / block][kh][kw][in][block] with blocks of two vectors of two lanes, else of one.
    if (u.Is(Op::PARAM) && u.slot() == 4) {
      EXPECT_EQ(g.DimsOf(u), (Dims{1, 3, 3, 3, 4}));
    }
    if (u.Is(Op::PARAM) && u.slot() == 5) {
      EXPECT_EQ(g.DimsOf(u), (Dims{3, 3, 3, 4, 2}));
    }
  }
  // Blocks are loops: no address of the main graph is divided.
  const auto schedule = schedule::MakeSchedule(ctx, split->main, {});
  ASSERT_TRUE(schedule.ok());
  for (const schedule::Item& item : schedule->items) {
    ir::UOpContext kernel;
    const auto root = ir::Decode(kernel, item.graph, ir::Level::kKernel);
    ASSERT_TRUE(root.ok());
    EXPECT_EQ(Count(kernel, *root, Op::FLOORDIV) + Count(kernel, *root, Op::FLOORMOD), 0);
  }
  ExpectSame(ctx, sink, *split);
}

// A depthwise convolution between two others: its lanes are channels, like theirs, and so the order
// of the values around it.
TEST(Kept, DepthwiseConvolutionsReadChannelsInnermost) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  const UOp x = g.Input({2, 4, 5, 7}), w1 = g.Input({6, 4, 1, 1}), w2 = g.Input({6, 1, 3, 3}),
            w3 = g.Input({4, 6, 1, 1});
  const UOp wide = g.Relu(g.Conv2d(x, w1, 0));
  g.Output(g.Conv2d(g.Relu(g.DepthwiseConv2d(wide, w2, 1)), w3, 0));
  const UOp sink = g.Finish();
  const auto split = Split(ctx, sink, Slots({1, 2, 3}));
  ASSERT_TRUE(split);
  EXPECT_EQ(split->slots, 3);
  EXPECT_EQ(Count(ctx, split->main, Op::CONTIGUOUS), 2);
  std::multiset<Dims> kept;
  for (UOp u : ir::Toposort(ctx, split->main)) {
    if (u.Is(Op::CONTIGUOUS)) {
      EXPECT_EQ(g.DimsOf(u), (Dims{2, 5, 7, 6}));
    }
    if (u.Is(Op::PARAM) && u.slot() >= split->first_slot) kept.insert(g.DimsOf(u));
  }
  // [kh][kw][channel] for the depthwise one.
  EXPECT_TRUE(kept.contains(Dims{1, 3, 3, 6}));
  ExpectSame(ctx, sink, *split);
}

// The padded input of a pooling is not stored: what is below the padding is.
TEST(Kept, PoolingStoresWhatItPads) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  const UOp x = g.Input({1, 3, 6, 6}), w1 = g.Input({4, 3, 3, 3}), w2 = g.Input({4, 4, 1, 1});
  const UOp y = g.Relu(g.Conv2d(x, w1, 1));
  const UOp padded = g.Pad(y, {0, 0, 1, 1}, {1, 4, 8, 8});
  const UOp pooled = g.Reshape(g.Max(g.Reshape(padded, {1, 4, 4, 2, 4, 2}), {3, 5}), {1, 4, 4, 4});
  g.Output(g.Conv2d(pooled, w2, 0));
  const UOp sink = g.Finish();
  const auto split = Split(ctx, sink, Slots({1, 2}));
  ASSERT_TRUE(split);
  for (UOp u : ir::Toposort(ctx, split->main)) {
    if (u.Is(Op::CONTIGUOUS)) {
      EXPECT_NE(ir::Product(g.DimsOf(u)), 4 * 8 * 8);
    }
  }
  ExpectSame(ctx, sink, *split);
}

// A residual connection with a product on both sides becomes two kernels.
TEST(Kept, JoinedProductsHaveKernelsOfTheirOwn) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  const UOp x = g.Input({1, 4, 6, 6}), w1 = g.Input({8, 4, 1, 1}), w2 = g.Input({8, 4, 3, 3}),
            w3 = g.Input({8, 8, 1, 1});
  const UOp joined = g.Relu(ir::Add(ctx, g.Conv2d(x, w1, 0), g.Conv2d(x, w2, 1)));
  g.Output(g.Conv2d(joined, w3, 0));
  const UOp sink = g.Finish();
  const auto split = Split(ctx, sink, Slots({1, 2, 3}));
  ASSERT_TRUE(split);
  const auto schedule = schedule::MakeSchedule(ctx, split->main, {});
  ASSERT_TRUE(schedule.ok());
  EXPECT_EQ(schedule->items.size(), 3u);
  for (const schedule::Item& item : schedule->items) EXPECT_LE(item.buffers.size(), 4u);
  ExpectSame(ctx, sink, *split);
}

TEST(Kept, KeepsWhatCostsMoreThanALoad) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  const UOp x = g.Input({8, 64}), variance = g.Input({64}), factor = g.Input({64});
  const UOp root =
      ctx.Make(Op::SQRT, Dtype::F32, {ir::Add(ctx, variance, g.Const(variance, 1e-3))});
  const UOp scale = ctx.Make(Op::RECIPROCAL, Dtype::F32, {root});
  // The product with two times the factor is as cheap as loading it.
  const UOp twice = ir::Mul(ctx, factor, g.Const(factor, 2));
  g.Output(ir::Mul(ctx, ir::Mul(ctx, x, g.Reshape(scale, {1, 64})), g.Reshape(twice, {1, 64})));
  const UOp sink = g.Finish();
  const auto split = Split(ctx, sink, Slots({1, 2}));
  ASSERT_TRUE(split);
  EXPECT_EQ(split->slots, 1);
  EXPECT_EQ(SlotsOf(ctx, split->main), (std::set<int64_t>{0, 2, 3, 4}));
  ExpectSame(ctx, sink, *split);
}

TEST(Kept, SmallFloatsArePackedAsTheyAre) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  const UOp x = g.Input({8, 16}), w = g.Input({16, 8}, Dtype::BF16);
  g.Output(g.MatMul(x, ir::Cast(ctx, w, Dtype::F32)));
  const UOp sink = g.Finish();
  const auto split = Split(ctx, sink, Slots({1}));
  ASSERT_TRUE(split);
  EXPECT_EQ(split->bytes, 2 * 16 * 8);
  ExpectSame(ctx, sink, *split);
}

Dims DimsOfSlot(ir::UOpContext& ctx, UOp graph, int64_t slot, Dtype dtype) {
  for (UOp u : ir::Toposort(ctx, graph)) {
    if (u.Is(Op::PARAM) && u.slot() == slot && u.dtype() == dtype)
      return *ir::StaticDims(*ctx.ShapeOf(u));
  }
  return {};
}

// Pairs of bf16 that a matrix instruction takes together share a word. Three channels have no
// pairs.
TEST(Kept, OperandsOfMatrixInstructionsArePackedInWords) {
  for (const int64_t channels : {4, 3}) {
    ir::UOpContext ctx;
    GraphBuilder g(ctx);
    const UOp x = g.Input({1, channels, 10, 10}), w = g.Input({8, channels, 3, 3});
    g.Output(g.Conv2d(x, w, 1));
    const UOp sink = g.Finish();
    const Target target = WordTarget();
    const schedule::Options rounding = RoundingTo(DtypeNumber::BF16, target);
    const UOp rounded = schedule::RoundProducts(ctx, ir::Toposort(ctx, sink), rounding);
    const auto split = Split(ctx, rounded, Slots({1}), target);
    ASSERT_TRUE(split);
    EXPECT_EQ(split->bytes, 2 * 8 * channels * 9);
    if (channels == 4) {
      EXPECT_EQ(DimsOfSlot(ctx, split->main, 3, Dtype::U32), (Dims{2, 3, 3, 2, 4}));
    } else {
      EXPECT_EQ(DimsOfSlot(ctx, split->main, 3, Dtype::BF16), (Dims{2, 3, 3, 3, 4}));
    }
    // No kernel takes the elements out of their words.
    const auto schedule = schedule::MakeSchedule(ctx, split->main, rounding);
    ASSERT_TRUE(schedule.ok());
    size_t reads = 0;
    for (const schedule::Item& item : schedule->items) {
      for (const schedule::BufferRef& b : item.buffers)
        reads += b.kind == schedule::BufferRef::kArgument && b.index == 3 ? 1 : 0;
      if (std::ranges::count(item.buffers,
                             schedule::BufferRef{schedule::BufferRef::kArgument, 3}) == 0)
        continue;
      ir::UOpContext kernel;
      const auto root = ir::Decode(kernel, item.graph, ir::Level::kKernel);
      ASSERT_TRUE(root.ok());
      EXPECT_GE(Count(kernel, *root, Op::REDUCE), 1);
    }
    EXPECT_EQ(reads, 1u);
    ExpectSame(ctx, rounded, *split, target);
  }
}

TEST(Kept, BytesArePackedInWords) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  const UOp x = g.Input({8, 16}, Dtype::I8), w = g.Input({16, 8}, Dtype::I8);
  g.Output(g.MatMul(ir::Cast(ctx, x, Dtype::I32), ir::Cast(ctx, w, Dtype::I32)));
  const UOp sink = g.Finish();
  const auto split = Split(ctx, sink, Slots({1}), WordTarget());
  ASSERT_TRUE(split);
  EXPECT_EQ(DimsOfSlot(ctx, split->main, 3, Dtype::U32), (Dims{2, 4, 4}));
  ExpectSame(ctx, sink, *split, WordTarget());
}

// Weights that are widened in two steps. A weight of -1 may become 65535 on the way, so what is
// kept must not be narrower than the first CAST that changes a value.
TEST(Kept, ChainsOfCastsKeepTheirValues) {
  constexpr Dtype kInts[] = {Dtype::I8,  Dtype::U8,  Dtype::I16, Dtype::U16,
                             Dtype::I32, Dtype::U32, Dtype::I64, Dtype::U64};
  constexpr Dtype kFloats[] = {Dtype::F8E4M3, Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64};
  std::vector<std::array<Dtype, 3>> chains;
  for (const auto dtypes : {std::span<const Dtype>(kInts), std::span<const Dtype>(kFloats)}) {
    for (const Dtype a : dtypes) {
      for (const Dtype b : dtypes) {
        for (const Dtype c : dtypes) chains.push_back({a, b, c});
      }
    }
  }
  int kept = 0;
  for (const auto& [from, by, to] : chains) {
    SCOPED_TRACE(::testing::Message() << Name(from) << " -> " << Name(by) << " -> " << Name(to));
    ir::UOpContext ctx;
    GraphBuilder g(ctx);
    const UOp x = g.Input({8, 16}, to), w = g.Input({16, 8}, from);
    g.Output(g.MatMul(x, ir::Cast(ctx, ir::Cast(ctx, w, by), to)));
    const UOp sink = g.Finish();
    for (const Target& target : {SmallTarget(), WordTarget()}) {
      const auto split = Split(ctx, sink, Slots({1}), target);
      if (!split) continue;
      ++kept;
      ExpectSame(ctx, sink, *split, target);
    }
  }
  EXPECT_GT(kept, 400);
}

// Tiles that the target has no instruction of one row for need words only where they are filled.
TEST(Kept, WordsForTilesAloneFillThem) {
  for (const auto& [rows, terms] : {std::pair<int64_t, int64_t>{8, 16}, {3, 16}, {8, 18}}) {
    ir::UOpContext ctx;
    GraphBuilder g(ctx);
    const UOp x = g.Input({rows, terms}), w = g.Input({terms, 8});
    g.Output(g.MatMul(x, w));
    const UOp sink = g.Finish();
    Target target = SmallTarget();
    target.matrix_instructions = {
        {"tile", 4, 2, 4, DtypeNumber::F16, DtypeNumber::F16, DtypeNumber::F32}};
    const UOp rounded =
        schedule::RoundProducts(ctx, ir::Toposort(ctx, sink), RoundingTo(DtypeNumber::F16, target));
    const auto split = Split(ctx, rounded, Slots({1}), target);
    ASSERT_TRUE(split);
    EXPECT_EQ(split->bytes, 2 * terms * 8);
    const bool whole = rows == 8 && terms == 16;
    EXPECT_FALSE(DimsOfSlot(ctx, split->main, 3, whole ? Dtype::U32 : Dtype::F16).empty())
        << rows << " " << terms;
    ExpectSame(ctx, rounded, *split, target);
  }
}

// What products read rounded is stored rounded, by the kernel that computes it. The sum reads the
// value itself.
TEST(Kept, RoundedValuesAreStoredBesideTheValuesThemselves) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  const UOp x = g.Input({1, 4, 4, 4}), w1 = g.Input({64, 4, 3, 3}), w2 = g.Input({64, 64, 1, 1}),
            w3 = g.Input({64, 64, 3, 3});
  const UOp first = g.Relu(g.Conv2d(x, w1, 1)), second = g.Relu(g.Conv2d(first, w2, 0));
  g.Output(ir::Add(ctx, g.Conv2d(second, w3, 1), first));
  const UOp sink = g.Finish();
  const Target target = WordTarget();
  const schedule::Options rounding = RoundingTo(DtypeNumber::BF16, target);
  const UOp rounded = schedule::RoundProducts(ctx, ir::Toposort(ctx, sink), rounding);
  const auto split = Split(ctx, rounded, Slots({1, 2, 3}), target);
  ASSERT_TRUE(split);
  int small = 0, whole = 0;
  for (UOp u : ir::Toposort(ctx, split->main)) {
    if (!u.Is(Op::CONTIGUOUS) || g.DimsOf(u) != Dims{1, 4, 4, 64}) continue;
    ++(u.dtype() == Dtype::BF16 ? small : whole);
  }
  EXPECT_EQ(small, 2);
  EXPECT_EQ(whole, 1);
  const auto schedule = schedule::MakeSchedule(ctx, split->main, rounding);
  ASSERT_TRUE(schedule.ok());
  int64_t sums = 0;
  for (const schedule::Item& item : schedule->items) {
    ir::UOpContext kernel;
    const auto root = ir::Decode(kernel, item.graph, ir::Level::kKernel);
    ASSERT_TRUE(root.ok());
    sums += Count(kernel, *root, Op::REDUCE);
  }
  EXPECT_EQ(sums, 3);
  ExpectSame(ctx, rounded, *split, target);
}

TEST(Kept, KeepsNothingWithoutReason) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  // One row uses each weight once.
  const UOp x = g.Input({1, 16}), w = g.Input({16, 8}), v = g.Input({8}, Dtype::BF16);
  g.Output(ir::Add(ctx, g.MatMul(x, w), ir::Cast(ctx, v, Dtype::F32)));
  EXPECT_FALSE(Split(ctx, g.Finish(), Slots({1, 2})));
}

TEST(Kept, NotForGraphsOverSeveralDevices) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  const UOp x = g.Input({8, 16}), w = g.Input({16, 8});
  const UOp y = g.MatMul(x, w);
  const UOp copy = ctx.Make(Op::COPY, Dtype::F32, {y}, ctx.Data({}, "CPU:1"));
  const UOp there = ir::Param(ctx, 2, Dtype::F32, ir::ShapeArg(ctx, g.DimsOf(y)), "CPU:1");
  const UOp store = ir::Store(ctx, there, copy);
  EXPECT_FALSE(Split(ctx, ir::Sink(ctx, std::span(&store, 1)), Slots({1})));
}

TEST(Kept, RespectsTheLimitOnBytes) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  const UOp x = g.Input({8, 16}), w = g.Input({16, 8});
  g.Output(g.MatMul(x, w));
  const UOp sink = g.Finish();
  for (const int64_t bytes : {4 * 16 * 8, 4 * 16 * 8 - 1}) {
    const auto split = schedule::SplitKept(ctx, sink, Slots({1}), SmallTarget(), {bytes});
    ASSERT_TRUE(split.ok());
    EXPECT_EQ(split->has_value(), bytes == 4 * 16 * 8);
  }
}

}  // namespace
}  // namespace uopd
