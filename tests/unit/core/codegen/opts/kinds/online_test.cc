// SPDX-License-Identifier: MIT
// ONLINE: attention in tiles of keys, against the interpreter, which computes whole rows.
#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>

#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/prepare_stages.h"
#include "core/ir/graph.h"
#include "gtest/gtest.h"
#include "tests/support/attention_kernel.h"
#include "tests/support/kernel_check.h"
#include "tests/support/lowered_run.h"

namespace uopd {
namespace {

using codegen::Opt;
using codegen::OptKind;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using ir::UOpContext;
using tests::AttentionShape;

// The axis of the maximum of the scores.
int MaximumAxis(UOpContext& ctx, UOp kernel) {
  const UOp sink = codegen::PrepareStages(ctx, kernel);
  const auto axes = codegen::Axes(ctx, sink);
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::REDUCE) && u.reduce_op() == Op::MAX)
      return static_cast<int>(std::ranges::find(axes, u.closed()[0]) - axes.begin());
  }
  return -1;
}

tests::Memory SampleMemory(const AttentionShape& s, bool tame) {
  const int64_t rows = s.heads * s.queries * s.depth, keys = s.heads * s.keys * s.depth;
  tests::Memory out;
  for (const int64_t n : {rows, rows, keys, keys})
    out.push_back(tests::SampleBuffer(s.dtype, n, out.size() + 1, tame));
  return out;
}

double Tolerance(Dtype d) {
  return d == Dtype::BF16 ? 4e-2 : d == Dtype::F16 ? 4e-3 : d == Dtype::F64 ? 1e-12 : 5e-6;
}

// What is wrong with the kernel in tiles of n keys and with `more` opts; empty: nothing.
std::string CheckOnline(const AttentionShape& s, int64_t n, const std::vector<Opt>& more,
                        const tests::Memory& memory) {
  UOpContext ctx;
  const UOp kernel = tests::AttentionKernel(ctx, s);
  std::vector<Opt> opts = {{OptKind::kOnline, MaximumAxis(ctx, kernel), n}};
  opts.insert(opts.end(), more.begin(), more.end());
  return tests::CheckOpts(ctx, kernel, memory, opts, Tolerance(s.dtype));
}

TEST(OnlineTest, TilesOfKeysKeepResults) {
  const struct {
    AttentionShape shape;
    int64_t n;
    bool divided, shared_range;
  } cases[] = {{{2, 3, 16, 5}, 4, false, false}, {{1, 1, 7, 1}, 1, true, false},
               {{1, 5, 33, 3}, 6, false, true},  {{1, 5, 33, 3}, 32, true, false},
               {{2, 4, 100, 8}, 32, true, true}, {{1, 9, 64, 33}, 6, true, false}};
  for (const auto& c : cases) {
    AttentionShape shape = c.shape;
    shape.divided = c.divided, shape.shared_range = c.shared_range;
    EXPECT_EQ(CheckOnline(shape, c.n, {}, SampleMemory(shape, true)), "")
        << shape.keys << " by " << c.n;
  }
}

// Rows that the mask hides in part, in whole tiles, and completely: those are NaN, as in one pass.
TEST(OnlineTest, MasksHideTiles) {
  const struct {
    int64_t queries, keys, n;
    Dtype dtype;
  } cases[] = {{9, 12, 2, Dtype::F32}, {12, 12, 4, Dtype::F64},  {9, 5, 2, Dtype::F16},
               {9, 5, 4, Dtype::F32},  {20, 33, 4, Dtype::BF16}, {20, 33, 2, Dtype::F16}};
  for (const auto& c : cases) {
    const AttentionShape s{2, c.queries, c.keys, 8, c.dtype, true};
    EXPECT_EQ(CheckOnline(s, c.n, {}, SampleMemory(s, true)), "")
        << c.queries << " x " << c.keys << " " << ir::Name(c.dtype) << " by " << c.n;
  }
}

// Scores of minus infinity in the first tiles, in the last ones, and in all.
TEST(OnlineTest, MinusInfinityIsNoMaximum) {
  const AttentionShape s{1, 2, 12, 1};
  for (const auto& [first, last] : {std::pair<size_t, size_t>{0, 5}, {6, 12}, {3, 9}, {0, 12}}) {
    tests::Memory memory = SampleMemory(s, true);
    const float infinity = -std::numeric_limits<float>::infinity();
    for (size_t q = 0; q < 2; ++q) {
      const float one = 1;
      std::memcpy(memory[1].data() + 4 * q, &one, 4);
    }
    for (size_t k = first; k < last; ++k) std::memcpy(memory[2].data() + 4 * k, &infinity, 4);
    EXPECT_EQ(CheckOnline(s, 4, {}, memory), "") << first << " to " << last;
    EXPECT_EQ(CheckOnline(s, 5, {}, memory), "") << first << " to " << last;
  }
}

TEST(OnlineTest, HardValuesStay) {
  for (const int64_t n : {2, 3, 4}) {
    const AttentionShape s{2, 3, 10, 4};
    EXPECT_EQ(CheckOnline(s, n, {}, SampleMemory(s, false)), "") << n;
  }
}

// Axes after ONLINE(3, 8): head 0, query 1, d 2, keys of the scores 3, their depth, ...
TEST(OnlineTest, OptsOfTheTilesApply) {
  const AttentionShape s{2, 6, 24, 16};
  UOpContext ctx;
  const UOp kernel = tests::AttentionKernel(ctx, s);
  Target target = tests::WideTarget();
  codegen::OptPlan plan(ctx, codegen::PrepareStages(ctx, kernel), target);
  ASSERT_TRUE(plan.Add({OptKind::kOnline, MaximumAxis(ctx, kernel), 8}).ok());
  const auto made = plan.Apply();
  ASSERT_TRUE(made.ok()) << made.status();
  const auto axes = codegen::Axes(ctx, *made);
  std::vector<int> of_8;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].src(0).IsConstInt(8)) of_8.push_back(static_cast<int>(i));
  }
  ASSERT_GE(of_8.size(), 3u);
  const int last = static_cast<int>(axes.size()) - 1;
  std::vector<std::vector<Opt>> lists = {{{OptKind::kVector, last, 16}},
                                         {{OptKind::kUnroll, last, 4}},
                                         {{OptKind::kUnroll, last, 5}},
                                         {{OptKind::kVector, 1, 4}},
                                         {{OptKind::kUpcast, 1, 5}, {OptKind::kVector, last, 8}},
                                         {{OptKind::kThread, 1, 2}, {OptKind::kUpcast, 1, 3}}};
  std::vector<Opt> all = {
      {OptKind::kUpcast, 1, 6}, {OptKind::kVector, 2, 16}, {OptKind::kVector, last, 16}};
  for (const int axis : of_8) lists.push_back({{OptKind::kVector, axis, 8}});
  lists.push_back(all);
  for (const auto& opts : lists) {
    std::string text;
    for (const Opt& o : opts) text += Text(o) + " ";
    EXPECT_EQ(CheckOnline(s, 8, opts, SampleMemory(s, true)), "") << text;
  }
}

// A softmax alone: its maximum and its sum in one pass, then the results.
TEST(OnlineTest, ASoftmaxTakesTwoPasses) {
  const AttentionShape s{2, 5, 33, 1};
  for (const bool tame : {true, false}) {
    UOpContext ctx;
    const UOp kernel = tests::SoftmaxKernel(ctx, s);
    tests::Memory memory;
    for (const uint64_t seed : {1, 2})
      memory.push_back(tests::SampleBuffer(Dtype::F32, 330, seed, tame));
    EXPECT_EQ(tests::CheckOpts(ctx, kernel, memory,
                               {{OptKind::kOnline, MaximumAxis(ctx, kernel), 8}}, 5e-6),
              "");
  }
}

bool HasOnline(const codegen::LoweredKernel& kernel) {
  return !kernel.opts.empty() && kernel.opts[0].kind == OptKind::kOnline;
}

// A CPU whose threads have no room for the scores of a row.
TEST(OnlineTest, TheHeuristicCutsRowsThatDoNotFit) {
  Target target = tests::WideTarget();
  for (const auto& [bytes, online, causal] : {std::tuple<int64_t, bool, bool>{7999, true, false},
                                              {7999, true, true},
                                              {8000, false, false}}) {
    const AttentionShape s{1, causal ? 37 : 5, 1000, 8, Dtype::F32, causal};
    target.private_bytes = bytes;
    UOpContext ctx;
    const UOp kernel = tests::AttentionKernel(ctx, s);
    const auto lowered = codegen::Lower(ctx, kernel, target, {});
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_EQ(HasOnline(*lowered), online) << bytes;
    tests::CheckOptions check;
    check.target = target, check.language = tests::CompiledText::kLlvmIr, check.tolerance = 5e-6;
    EXPECT_EQ(tests::CheckKernel(ctx, kernel, SampleMemory(s, true), check), "") << bytes;
  }
}

// 48 KiB of shared memory: 2000 keys in tiles of some, and more keys than the memory has elements.
// The interpreter reports races and accesses outside of arrays.
TEST(OnlineTest, BlocksOfThreadsCutRowsThatDoNotFit) {
  for (const bool shuffles : {false, true}) {
    for (const AttentionShape& s :
         {AttentionShape{1, 3, 2000, 8}, {1, 1, 13001, 2}, {1, 5, 2000, 4, Dtype::F16, true}}) {
      UOpContext ctx;
      const UOp kernel = tests::AttentionKernel(ctx, s);
      tests::CheckOptions check;
      check.target = tests::BlockTarget(shuffles);
      check.tolerance = Tolerance(s.dtype);
      const auto lowered = codegen::Lower(ctx, kernel, check.target, {});
      ASSERT_TRUE(lowered.ok()) << lowered.status();
      EXPECT_TRUE(HasOnline(*lowered)) << s.keys;
      EXPECT_EQ(tests::CheckKernel(ctx, kernel, SampleMemory(s, true), check).substr(0, 300), "")
          << s.keys;
    }
  }
}

TEST(OnlineTest, WhatItDoesNotFitIsRefused) {
  UOpContext ctx;
  const Target target;
  const auto refused = [&](UOp kernel, std::vector<Opt> opts) {
    return StatusText(
        codegen::ApplyOpts(ctx, codegen::PrepareStages(ctx, kernel), target, opts).status());
  };
  const AttentionShape s{2, 3, 16, 5};
  const UOp kernel = tests::AttentionKernel(ctx, s);
  const int axis = MaximumAxis(ctx, kernel);
  const Opt online{OptKind::kOnline, axis, 4};
  EXPECT_EQ(refused(kernel, {online}), "");
  EXPECT_NE(refused(kernel, {online, online}).find("ONLINE comes before"), std::string::npos);
  EXPECT_NE(refused(kernel, {{OptKind::kOnline, axis, 16}}).find("the whole axis"),
            std::string::npos);
  EXPECT_NE(refused(kernel, {{OptKind::kOnline, 0, 2}}).find("not that of one maximum"),
            std::string::npos);
  // A product of the row needs no maximum.
  EXPECT_NE(
      refused(tests::ProductKernel(ctx, s), {{OptKind::kOnline, 3, 4}}).find("not that of one"),
      std::string::npos);
  AttentionShape symbolic = s;
  symbolic.symbolic = true;
  EXPECT_NE(refused(tests::AttentionKernel(ctx, symbolic), {online}).find("may have no element"),
            std::string::npos);
}

}  // namespace
}  // namespace uopd
