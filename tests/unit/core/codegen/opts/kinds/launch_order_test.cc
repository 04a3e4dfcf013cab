// SPDX-License-Identifier: MIT
// RASTER and PERSIST: which block of a launch does which part of the work.
#include <set>

#include "core/base/target/gpu_targets.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/ir/graph.h"
#include "core/rules/simplify.h"
#include "gtest/gtest.h"
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

// out[i, j] = in[i, j] + 1
UOp AddOne(UOpContext& ctx, int64_t rows, int64_t columns) {
  tests::KernelBuilder k(ctx);
  const UOp i = k.Loop(rows), j = k.Loop(columns), at = k.At(i, columns, j);
  const UOp in = k.Buffer(1, Dtype::F32, rows * columns);
  return k.Kernel({k.StoreLoops(k.Buffer(0, Dtype::F32, rows * columns), at,
                                ir::Add(ctx, k.Load(in, at), ctx.Float(Dtype::F32, 1)), {i, j})});
}

std::string Check(UOpContext& ctx, UOp kernel, const tests::Memory& memory,
                  const std::vector<Opt>& opts, const Target& target, double tolerance = 0) {
  tests::CheckOptions check;
  check.target = target;
  check.tolerance = tolerance;
  check.options.opts = &opts;
  return tests::CheckKernel(ctx, kernel, memory, check).substr(0, 400);
}

tests::Memory Floats(std::initializer_list<int64_t> sizes) {
  tests::Memory out;
  for (const int64_t n : sizes)
    out.push_back(tests::SampleBuffer(Dtype::F32, n, out.size() + 1, true));
  return out;
}

// The element that each block of the launch stores.
std::vector<int64_t> ElementsOfBlocks(UOpContext& ctx, UOp kernel, const std::vector<Opt>& opts) {
  const auto lowered = codegen::Lower(ctx, kernel, tests::BlockTarget(true), {.opts = &opts});
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  UOp block, index;
  for (UOp u : lowered->linear.srcs()) {
    if (u.Is(Op::SPECIAL)) block = u;
    if (u.Is(Op::STORE)) index = u.src(0).src(1);
  }
  std::vector<int64_t> out;
  for (int64_t b = 0; b < lowered->launch.grid[0].Evaluate({}); ++b) {
    const UOp at = rules::Simplify(
        ctx, ir::Substitute(ctx, index, {{block.id(), ctx.Int(block.dtype(), b)}}), false);
    EXPECT_TRUE(at.Is(Op::CONST));
    out.push_back(at.Is(Op::CONST) ? at.const_int() : -1);
  }
  return out;
}

TEST(Raster, NeighboursAlongTheAxisComeFirst) {
  UOpContext ctx;
  const UOp kernel = AddOne(ctx, 12, 8);
  std::vector<int64_t> plain, near;
  for (int64_t i = 0; i < 12; ++i) {
    for (int64_t j = 0; j < 8; ++j) plain.push_back(i * 8 + j);
  }
  for (int64_t i = 0; i < 12; i += 4) {
    for (int64_t j = 0; j < 8; ++j) {
      for (int64_t k = 0; k < 4; ++k) near.push_back((i + k) * 8 + j);
    }
  }
  EXPECT_EQ(ElementsOfBlocks(ctx, kernel, {}), plain);
  EXPECT_EQ(ElementsOfBlocks(ctx, kernel, {{OptKind::kRaster, 0, 4}}), near);
}

TEST(Raster, AppliesToAxesWithBlocksOnly) {
  UOpContext ctx;
  const UOp kernel = AddOne(ctx, 12, 8);
  const Target blocks = tests::BlockTarget(true);
  const auto applies = [&](const Target& target, std::initializer_list<Opt> opts) {
    codegen::OptPlan plan(ctx, kernel, target);
    absl::Status last;
    for (const Opt& opt : opts) last = plan.Add(opt);
    return last.ok();
  };
  EXPECT_TRUE(applies(blocks, {{OptKind::kRaster, 0, 12}}));
  EXPECT_TRUE(applies(blocks, {{OptKind::kLocal, 0, 4}, {OptKind::kRaster, 0, 3}}));
  EXPECT_FALSE(applies(blocks, {{OptKind::kLocal, 0, 4}, {OptKind::kRaster, 0, 4}}));
  EXPECT_FALSE(applies(blocks, {{OptKind::kRaster, 0, 5}}));
  EXPECT_FALSE(applies(blocks, {{OptKind::kRaster, 0, 1}}));
  EXPECT_FALSE(applies(blocks, {{OptKind::kRaster, 1, 4}}));  // its blocks are neighbours already
  EXPECT_FALSE(applies(blocks, {{OptKind::kRaster, 2, 2}}));
  EXPECT_FALSE(applies(blocks, {{OptKind::kRaster, 0, 4}, {OptKind::kRaster, 0, 2}}));
  EXPECT_FALSE(applies(blocks, {{OptKind::kRaster, 0, 4}, {OptKind::kUpcast, 0, 2}}));
  EXPECT_FALSE(applies(tests::WideTarget(), {{OptKind::kRaster, 0, 4}}));
}

// TC splits the axes of rows and columns.
TEST(Raster, ComesAfterMatrixInstructions) {
  UOpContext ctx;
  const UOp kernel = tests::WideningMatmulKernel(ctx, 64, 64, 64, false, false, Dtype::BF16,
                                                 Dtype::BF16, Dtype::F32);
  const Target target = *GpuTarget("sm_80");
  codegen::OptPlan plan(ctx, kernel, target);
  EXPECT_TRUE(plan.Add({OptKind::kRaster, 0, 4}).ok());
  EXPECT_FALSE(plan.Add({OptKind::kTensorCore, 2, 0}).ok());
  plan.Clear();
  EXPECT_TRUE(plan.Add({OptKind::kTensorCore, 2, 0}).ok());
  EXPECT_TRUE(plan.Add({OptKind::kRaster, 0, 4}).ok());
}

// Of large products, so that the blocks that run together share what they read.
TEST(Raster, IsChosenForLargeProducts) {
  for (const auto& [size, wanted] : {std::pair<int64_t, bool>{4096, true}, {512, false}}) {
    UOpContext ctx;
    const UOp kernel = tests::WideningMatmulKernel(ctx, size, size, size, false, false, Dtype::BF16,
                                                   Dtype::BF16, Dtype::F32);
    const auto lowered = codegen::Lower(ctx, kernel, *GpuTarget("sm_80"), {});
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_EQ(
        std::ranges::any_of(lowered->opts, [](const Opt& o) { return o.kind == OptKind::kRaster; }),
        wanted);
  }
}

TEST(Persist, EachBlockDoesEveryNthPart) {
  for (const int64_t blocks : {1, 3, 5, 95}) {
    UOpContext ctx;
    const UOp kernel = AddOne(ctx, 12, 8);
    const std::vector<Opt> opts = {{OptKind::kPersist, 0, blocks}};
    const auto lowered = codegen::Lower(ctx, kernel, tests::BlockTarget(true), {.opts = &opts});
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_EQ(lowered->launch.grid[0].Evaluate({}), blocks);
    EXPECT_EQ(Check(ctx, kernel, Floats({96, 96}), opts, tests::BlockTarget(true)), "");
  }
}

TEST(Persist, AppliesToLargerLaunchesOnly) {
  UOpContext ctx;
  const UOp kernel = AddOne(ctx, 12, 8);
  for (const auto& [blocks, applies] :
       {std::pair<int64_t, bool>{95, true}, {96, false}, {0, false}, {-1, false}}) {
    const Target target = tests::BlockTarget(true);
    codegen::OptPlan plan(ctx, kernel, target);
    EXPECT_EQ(plan.Add({OptKind::kPersist, 0, blocks}).ok(), applies) << blocks;
  }
  const Target target = tests::BlockTarget(true), threads = tests::WideTarget();
  codegen::OptPlan last(ctx, kernel, target);
  EXPECT_TRUE(last.Add({OptKind::kPersist, 0, 8}).ok());
  EXPECT_FALSE(last.Add({OptKind::kUpcast, 0, 0}).ok());
  codegen::OptPlan plan(ctx, kernel, threads);
  EXPECT_FALSE(plan.Add({OptKind::kPersist, 0, 2}).ok());
}

// Shared arrays and accumulators begin anew in each part, and are not overwritten while threads
// read them.
TEST(Persist, ProductsWithSharedArrays) {
  UOpContext ctx;
  const UOp kernel = tests::MatmulKernel(ctx, 36, 40, 32, false, false);
  const tests::Memory memory = Floats({36 * 40, 36 * 32, 32 * 40});
  std::vector<Opt> opts = {{OptKind::kLocal, 0, 4},  {OptKind::kLocal, 1, 8},
                           {OptKind::kUnroll, 2, 4}, {OptKind::kBlock, 2, 2},
                           {OptKind::kPack, 0, 0},   {OptKind::kPack, 1, 0}};
  for (const bool pipelined : {false, true}) {
    if (pipelined) opts.push_back({OptKind::kPipeline, 2, 2});
    for (const bool raster : {false, true}) {
      std::vector<Opt> all = opts;
      if (raster) all.push_back({OptKind::kRaster, 0, 3});
      all.push_back({OptKind::kPersist, 0, 7});
      Target target = tests::BlockTarget(true);
      target.async_copies = raster;
      EXPECT_EQ(Check(ctx, kernel, memory, all, target, 2e-6), "");
    }
  }
}

TEST(Persist, GroupsOfThreads) {
  UOpContext ctx;
  tests::KernelBuilder k(ctx);
  const UOp i = k.Loop(37), r = k.Reduced(100);
  const UOp sum = ir::ReduceRanges(
      ctx, Op::ADD, k.Load(k.Buffer(1, Dtype::F32, 3700), k.At(i, 100, r)), std::span(&r, 1));
  const UOp kernel = k.Kernel({k.StoreLoops(k.Buffer(0, Dtype::F32, 37), i, sum, {i})});
  for (const bool shuffles : {false, true}) {
    EXPECT_EQ(Check(ctx, kernel, Floats({37, 3700}),
                    {{OptKind::kGroup, 1, 64}, {OptKind::kPersist, 0, 4}},
                    tests::BlockTarget(shuffles), 2e-6),
              "");
  }
}

TEST(Persist, SymbolicNumberOfBlocks) {
  UOpContext ctx;
  tests::KernelBuilder k(ctx);
  const UOp n = ir::Variable(ctx, "n", 0, 50), i = k.Loop(n);
  const UOp kernel = k.Kernel({k.StoreLoops(
      k.Buffer(0, Dtype::F32, 50), i,
      ir::Add(ctx, k.Load(k.Buffer(1, Dtype::F32, 50), i), ctx.Float(Dtype::F32, 1)), {i})});
  const std::vector<Opt> opts = {{OptKind::kPersist, 0, 4}};
  for (const int64_t value : {0, 1, 3, 4, 5, 50}) {
    tests::CheckOptions check;
    check.target = tests::BlockTarget(true);
    check.options.opts = &opts;
    check.variables = {{"n", value}};
    EXPECT_EQ(tests::CheckKernel(ctx, kernel, Floats({50, 50}), check).substr(0, 400), "") << value;
  }
}

}  // namespace
}  // namespace uopd
