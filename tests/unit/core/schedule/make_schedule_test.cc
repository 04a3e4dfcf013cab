// SPDX-License-Identifier: MIT
// Properties of whole schedules: memory plans, kernels that are shared, cost, splits and limits.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <set>

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"
#include "core/rewrite/match_stats.h"
#include "core/schedule/schedule.h"
#include "tests/support/model_graphs.h"
#include "tests/support/schedule_interpreter.h"

namespace uopd {
namespace {

using ir::Dims;
using ir::Op;
using ir::UOp;
using test::GraphBuilder;
using test::HostArray;

schedule::Schedule Made(ir::UOpContext& ctx, UOp sink, const schedule::Options& options = {}) {
  auto s = schedule::MakeSchedule(ctx, sink, options);
  EXPECT_TRUE(s.ok()) << StatusText(s.status());
  return s.ok() ? *std::move(s) : schedule::Schedule{};
}

// The most bytes that are alive at one item: no plan can do with less.
int64_t MostAlive(const schedule::Schedule& s) {
  std::vector<int64_t> change(s.items.size() + 1, 0);
  for (size_t t = 0; t < s.temporaries.size(); ++t) {
    size_t first = SIZE_MAX, last = 0;
    for (size_t i = 0; i < s.items.size(); ++i) {
      const schedule::BufferRef ref{schedule::BufferRef::kTemporary, static_cast<int64_t>(t)};
      const auto& buffers = s.items[i].buffers;
      if (std::find(buffers.begin(), buffers.end(), ref) == buffers.end()) continue;
      first = std::min(first, i), last = i;
    }
    if (first == SIZE_MAX) continue;
    change[first] += s.temporaries[t].bytes, change[last + 1] -= s.temporaries[t].bytes;
  }
  int64_t alive = 0, most = 0;
  for (int64_t c : change) alive += c, most = std::max(most, alive);
  return most;
}

TEST(MemoryPlan, HasNothingForValuesWithoutElements) {
  ir::UOpContext ctx;
  const auto shape = [&](int64_t rows) { return ir::ShapeArg(ctx, Dims{rows, 16}); };
  const auto kept = [&](UOp x) {
    return ctx.Make(Op::CONTIGUOUS, x.dtype(), {ir::Mul(ctx, x, x)});
  };
  std::vector<UOp> stores;
  for (int slot = 0; slot < 3; ++slot) {  // the middle one has elements
    const UOp x = ir::Param(ctx, slot, ir::Dtype::F32, shape(slot == 1 ? 4 : 0));
    const UOp value = kept(x);
    stores.push_back(ir::Store(ctx, x, ir::Add(ctx, value, ir::Flip(ctx, value, Dims{1}))));
  }
  const schedule::Schedule s = Made(ctx, ir::Sink(ctx, stores));
  ASSERT_EQ(s.temporaries.size(), 1u);
  EXPECT_EQ(s.temporaries[0].bytes, 4 * 16 * 4);
  ASSERT_EQ(s.arenas.size(), 1u);
  for (const schedule::Item& item : s.items) {
    for (const schedule::BufferRef& b : item.buffers) {
      if (b.kind == schedule::BufferRef::kTemporary) {
        EXPECT_EQ(b.index, 0);
      }
    }
  }
}

// Sizes that are zero whatever their variables are.
TEST(MakeSchedule, StoresOfNoElementsAreNoKernels) {
  ir::UOpContext ctx;
  const UOp n = ir::Variable(ctx, "n", 0, 2), zero = ctx.Idx(0);
  const UOp never = ir::Variable(ctx, "m", 0, 0);
  std::vector<UOp> stores;
  for (UOp size : {ir::Mul(ctx, n, zero), ir::Sub(ctx, n, n), never}) {
    const UOp dims[] = {size, ctx.Idx(3)};
    const UOp x = ir::Param(ctx, static_cast<int>(stores.size()), ir::Dtype::F32,
                            ir::ShapeArg(ctx, ir::Shape(dims)));
    stores.push_back(ir::Store(ctx, x, ir::Add(ctx, x, x)));
  }
  const schedule::Schedule s = Made(ctx, ir::Sink(ctx, stores));
  EXPECT_TRUE(s.items.empty());
  EXPECT_TRUE(s.temporaries.empty());
}

TEST(MemoryPlan, IsCloseToTheLeastPossible) {
  for (int kind = 0; kind < 3; ++kind) {
    ir::UOpContext ctx;
    const UOp sink = kind == 0   ? test::TransformerGraph(ctx, 6, 128, 256, 4)
                     : kind == 1 ? test::ResNetGraph(ctx, 8, 4, 16, 28)
                                 : test::TransformerGraph(ctx, 2, 1, 512, 8);
    const schedule::Schedule s = Made(ctx, sink);
    ASSERT_EQ(s.arenas.size(), 1u);
    int64_t all = 0;
    for (const schedule::Temporary& t : s.temporaries) all += t.bytes;
    const int64_t least = MostAlive(s);
    EXPECT_GE(s.arenas[0].second, least);
    EXPECT_LE(static_cast<double>(s.arenas[0].second), 1.05 * static_cast<double>(least))
        << "network " << kind << ", all temporaries: " << all;
    EXPECT_LT(least, all / 2);
  }
}

// Thousands of values that live long, of three sizes.
TEST(MemoryPlan, ManyLongLivesDoNotOverlap) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  const auto kept = [&](UOp x) { return g.Contiguous(ir::Mul(ctx, x, x)); };
  std::vector<UOp> steps;
  for (int i = 0; i < 3000; ++i) {
    const int64_t size = 16 << i % 3;
    const UOp x = i < 3 ? g.Input({size}) : steps[static_cast<size_t>(i - 3)];
    steps.push_back(kept(x));
  }
  std::vector<UOp> sums(steps.end() - 3, steps.end());
  for (size_t i = steps.size() - 3; i-- > 0;)
    sums[i % 3] = g.Contiguous(ir::Mul(ctx, sums[i % 3], steps[i]));
  for (UOp sum : sums) g.Output(sum);
  const schedule::Schedule s = Made(ctx, g.Finish());
  struct Life {
    size_t first = SIZE_MAX, last = 0;
  };
  std::vector<Life> lives(s.temporaries.size());
  for (size_t i = 0; i < s.items.size(); ++i) {
    for (const schedule::BufferRef& b : s.items[i].buffers) {
      if (b.kind != schedule::BufferRef::kTemporary) continue;
      Life& life = lives[static_cast<size_t>(b.index)];
      life.first = std::min(life.first, i), life.last = i;
    }
  }
  ASSERT_GT(lives.size(), 5'000u);
  std::multimap<size_t, size_t> births, deaths;
  for (size_t t = 0; t < lives.size(); ++t)
    births.emplace(lives[t].first, t), deaths.emplace(lives[t].last, t);
  std::map<int64_t, int64_t> taken;  // begin -> end
  int64_t alive = 0, most = 0;
  for (size_t i = 0; i < s.items.size(); ++i) {
    for (auto [it, end] = births.equal_range(i); it != end; ++it) {
      const schedule::Temporary& t = s.temporaries[it->second];
      EXPECT_EQ(t.offset % 64, 0);
      const auto next = taken.lower_bound(t.offset);
      ASSERT_TRUE(next == taken.end() || next->first >= t.offset + t.bytes);
      ASSERT_TRUE(next == taken.begin() || std::prev(next)->second <= t.offset);
      taken[t.offset] = t.offset + t.bytes;
      most = std::max(most, alive += t.bytes);
    }
    for (auto [it, end] = deaths.equal_range(i); it != end; ++it) {
      taken.erase(s.temporaries[it->second].offset);
      alive -= s.temporaries[it->second].bytes;
    }
  }
  ASSERT_EQ(s.arenas.size(), 1u);
  EXPECT_LE(static_cast<double>(s.arenas[0].second), 1.05 * static_cast<double>(most));
}

TEST(MakeSchedule, LayersShareKernels) {
  ir::UOpContext ctx;
  std::set<std::string> two, eight;
  for (const auto& item : Made(ctx, test::TransformerGraph(ctx, 2, 32, 256, 4)).items)
    two.insert(item.graph);
  const schedule::Schedule s = Made(ctx, test::TransformerGraph(ctx, 8, 32, 256, 4));
  for (const auto& item : s.items) eight.insert(item.graph);
  EXPECT_EQ(two, eight);
  EXPECT_GT(s.items.size(), 8 * 8u);
  EXPECT_LE(eight.size(), 12u);
}

// What scheduling makes and tries: the same in every run. Its time is measured by uopd-perf
// schedule.
struct Cost {
  double nodes = 0, attempts = 0;
};
Cost CostOf(int layers, int kind) {
  auto attempts = [] {
    double sum = 0;
    for (const auto& rule : rewrite::MatchStats()) sum += static_cast<double>(rule.attempts);
    return sum;
  };
  ir::UOpContext ctx;
  const UOp sink = kind == 0   ? test::TransformerGraph(ctx, layers, 32, 64, 4)
                   : kind == 1 ? test::ResNetGraph(ctx, layers, 2, 8, 8)
                               : test::AdamGraph(ctx, 4 * layers, 32, 64);
  const double before = attempts();
  Made(ctx, sink);
  return {static_cast<double>(ctx.size()), attempts() - before};
}

TEST(MakeSchedule, CostIsLinearInTheGraph) {
  for (int kind = 0; kind < 3; ++kind) {
    const Cost few = CostOf(16, kind), many = CostOf(64, kind);
    EXPECT_GT(many.attempts, 0);
    EXPECT_LT(many.nodes, 4.5 * few.nodes) << "network " << kind;
    EXPECT_LT(many.attempts, 4.5 * few.attempts) << "network " << kind;
  }
}

// Every store in a cycle of its own: one round for all of them.
TEST(MakeSchedule, ManySwapsCostLittle) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  for (int i = 0; i < 300; ++i) {
    const UOp a = g.Input({4}), b = g.Input({4});
    g.Assign(a, b);
    g.Assign(b, a);
  }
  const std::clock_t start = std::clock();
  EXPECT_EQ(Made(ctx, g.Finish()).items.size(), 900u);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 1.0);
}

TEST(MakeSchedule, KernelsTakeNoMoreBuffersThanAllowed) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  UOp sum = g.Input({8});
  std::vector<UOp> parts = {sum};
  for (int i = 1; i < 100; ++i) {
    parts.push_back(g.Input({8}));
    sum = ir::Add(ctx, sum, parts.back());
  }
  g.Output(sum);
  g.Output(ctx.Make(Op::STACK, sum.dtype(), parts));
  const UOp sink = g.Finish();
  schedule::Options options;
  for (size_t most : {4, 8, 31}) {
    options.limits.max_buffers = static_cast<int>(most);
    const schedule::Schedule s = Made(ctx, sink, options);
    std::vector<HostArray> slots;
    for (size_t i = 0; i < s.slots.size(); ++i) {
      const Dims dims(s.slots[i].dims.begin(), s.slots[i].dims.end());
      slots.push_back(HostArray::Of(s.slots[i].dtype, dims,
                                    std::vector<double>(static_cast<size_t>(ir::Product(dims)),
                                                        static_cast<double>(i % 13))));
    }
    for (const auto& item : s.items) EXPECT_LE(item.buffers.size(), most);
    const auto want = test::TensorInterpreter(ctx).Run(sink, slots);
    const auto got = test::RunSchedule(s, slots);
    ASSERT_TRUE(want.ok() && got.ok());
    for (size_t i = 0; i < slots.size(); ++i)
      EXPECT_EQ((*got)[i].ToDoubles(), (*want)[i].ToDoubles()) << "slot " << i;
  }
}

// Long reductions of every kind give what they would in one kernel, which they are where their
// threads have work anyway, or where there is too little for two.
TEST(MakeSchedule, SplitReductionsAgree) {
  struct Case {
    Dims dims, axes;
    Op op;
    size_t kernels;
    int threads = 8;
  };
  const Case cases[] = {
      {{140000}, {0}, Op::ADD, 2},          {{131101}, {0}, Op::ADD, 2},  // a prime: padded
      {{131101}, {0}, Op::MAX, 2},          {{400, 500}, {0, 1}, Op::MAX, 2},
      {{3, 70000}, {1}, Op::ADD, 2, 2},     {{70000, 3}, {0}, Op::MAX, 2},
      {{140, 3, 1000}, {0, 2}, Op::ADD, 2}, {{300, 200}, {0}, Op::ADD, 1},
      {{131072}, {0}, Op::MUL, 2},          {{0, 140000}, {1}, Op::ADD, 0},
      {{131000}, {0}, Op::ADD, 1},          {{140000}, {0}, Op::ADD, 1, 1},
      {{2, 70000}, {1}, Op::ADD, 1, 2},     {{32, 8192}, {1}, Op::ADD, 1},
      {{2100, 100}, {0}, Op::ADD, 2, 2},    {{2100, 128}, {0}, Op::ADD, 1, 2},
  };
  for (const Case& c : cases) {
    ir::UOpContext ctx;
    GraphBuilder g(ctx);
    const UOp x = g.Input(c.dims, ir::Dtype::I32);
    g.Output(ir::ReduceAxes(ctx, c.op, x, c.axes));
    const UOp sink = g.Finish();
    schedule::Options options;
    options.limits.threads = c.threads;
    const schedule::Schedule s = Made(ctx, sink, options);
    EXPECT_EQ(s.items.size(), c.kernels) << &c - cases;
    std::vector<HostArray> slots;
    for (const schedule::Slot& slot : s.slots) {
      const Dims dims(slot.dims.begin(), slot.dims.end());
      std::vector<double> values(static_cast<size_t>(ir::Product(dims)));
      for (size_t i = 0; i < values.size(); ++i)
        values[i] =
            c.op == Op::MUL ? (i % 1000 == 7 ? 3 : 1) : static_cast<double>(i * 7919 % 1013) - 500;
      slots.push_back(HostArray::Of(slot.dtype, dims, values));
    }
    const auto want = test::TensorInterpreter(ctx).Run(sink, slots);
    const auto got = test::RunSchedule(s, slots);
    ASSERT_TRUE(want.ok() && got.ok());
    EXPECT_EQ((*got)[1].ToDoubles(), (*want)[1].ToDoubles());
  }
}

TEST(MakeSchedule, EqualReductionsRunInOneLoop) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  const UOp x = g.Input({16, 64});
  g.Output(g.Sum(x, {1}));
  g.Output(g.Max(x, {1}));
  const schedule::Schedule s = Made(ctx, g.Finish());
  ASSERT_EQ(s.items.size(), 1u);
  ir::UOpContext kernel;
  const auto sink = ir::Decode(kernel, s.items[0].graph, ir::Level::kKernel);
  ASSERT_TRUE(sink.ok());
  int ranges = 0, loads = 0;
  for (UOp u : ir::Toposort(kernel, *sink)) ranges += u.Is(Op::RANGE), loads += u.Is(Op::LOAD);
  EXPECT_EQ(ranges, 2);
  EXPECT_EQ(loads, 1);
}

// What a slot held before matters only where a run does not overwrite it first.
TEST(MakeSchedule, SlotsSayHowTheyAreUsed) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  const UOp x = g.Input({8, 8}), y = g.MatMul(x, x);
  g.Output(y);  // lives in its slot, which the next kernel reads
  g.Output(g.Sum(y, {0}));
  const UOp part = g.Input({8, 8});
  g.Assign(part, ir::Add(ctx, part, x));
  const schedule::Schedule s = Made(ctx, g.Finish());
  ASSERT_EQ(s.slots.size(), 4u);
  EXPECT_TRUE(s.slots[0].read && !s.slots[0].written);
  EXPECT_TRUE(!s.slots[1].read && s.slots[1].written);
  EXPECT_TRUE(!s.slots[2].read && s.slots[2].written);
  EXPECT_TRUE(s.slots[3].read && s.slots[3].written);
  EXPECT_TRUE(s.temporaries.empty());
}

// A slot of variable size has memory for the largest one: a run of a smaller one leaves the rest.
TEST(MakeSchedule, AValueOfVariableSizeLeavesTheRestOfItsSlot) {
  for (const bool fixed : {false, true}) {
    ir::UOpContext ctx;
    const UOp n = fixed ? ctx.Idx(8) : ir::Variable(ctx, "n", 1, 8);
    const UOp size = ir::ShapeArg(ctx, ir::Shape(std::span(&n, 1)));
    const UOp store = ir::Store(ctx, ir::Param(ctx, 0, ir::Dtype::I32, size),
                                ir::Iota(ctx, ir::Dtype::I32, size, 0));
    const schedule::Schedule s = Made(ctx, ir::Sink(ctx, std::span(&store, 1)));
    ASSERT_EQ(s.slots.size(), 1u);
    EXPECT_EQ(s.slots[0].bytes, 32);
    EXPECT_TRUE(s.slots[0].written);
    EXPECT_EQ(s.slots[0].read, !fixed);
  }
}

// A part whose largest size is the whole slot is a part all the same.
TEST(MakeSchedule, APartOfVariableSizeLeavesTheRest) {
  ir::UOpContext ctx;
  const UOp n = ir::Variable(ctx, "n", 1, 8), all = ir::ShapeArg(ctx, ir::Dims{8});
  const UOp size = ir::ShapeArg(ctx, ir::Shape(std::span(&n, 1)));
  const UOp x = ir::Param(ctx, 0, ir::Dtype::F32, all), y = ir::Param(ctx, 1, ir::Dtype::F32, all);
  const UOp start = ir::ShapeArg(ctx, ir::Dims{0});
  const UOp store =
      ir::Store(ctx, ir::Shrink(ctx, y, start, size), ir::Shrink(ctx, x, start, size));
  const schedule::Schedule s = Made(ctx, ir::Sink(ctx, std::span(&store, 1)));
  ASSERT_EQ(s.slots.size(), 2u);
  EXPECT_TRUE(s.slots[1].read && s.slots[1].written);
}

// A sum goes through its axes in their order, whichever of them the terms name first.
TEST(MakeSchedule, NumbersTheLoopsOfASumInTheOrderOfItsAxes) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  const UOp x = g.Input({8, 6, 5});
  const UOp column = ir::Iota(ctx, ir::Dtype::I32, ir::ShapeArg(ctx, Dims{8, 6, 5}), 2);
  const UOp some = ir::Alu(ctx, Op::CMPLT, {column, g.Const(column, 3)});
  g.Output(g.Sum(ir::Where(ctx, some, x, g.Const(x, 7)), {1, 2}));
  const schedule::Schedule s = Made(ctx, g.Finish());
  ASSERT_EQ(s.items.size(), 1u);
  ir::UOpContext kernel;
  const UOp sink = *ir::Decode(kernel, s.items[0].graph, ir::Level::kKernel);
  int sums = 0;
  for (UOp u : ir::Toposort(kernel, sink)) {
    if (!u.Is(Op::REDUCE)) continue;
    ++sums;
    ASSERT_EQ(u.closed().size(), 2u);
    EXPECT_EQ(u.closed()[0].src(0).const_int(), 6);
    EXPECT_LT(u.closed()[0].axis_id(), u.closed()[1].axis_id());
  }
  EXPECT_EQ(sums, 1);
}

}  // namespace
}  // namespace uopd
