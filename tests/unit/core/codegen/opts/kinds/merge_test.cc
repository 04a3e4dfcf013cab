// SPDX-License-Identifier: MIT
// MERGE: axes that become one, and the tiles that convolutions get by it.
#include "core/codegen/opts/make/merge_axes.h"

#include "core/base/target/gpu_targets.h"
#include "core/base/target/matrix_instructions.h"
#include "core/codegen/opts/choose/heuristic.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/vectors/vectorise.h"
#include "core/ir/graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/convolution_kernel.h"
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
using ::testing::HasSubstr;
using tests::Convolution;
using tests::ConvolutionKernel;

// What is wrong with the kernel under these opts, or under the heuristic's; empty: nothing.
std::string Checked(const Convolution& v, const Target& target,
                    const std::vector<Opt>* maybe_opts = nullptr) {
  UOpContext ctx;
  const UOp kernel = ConvolutionKernel(ctx, v);
  tests::CheckOptions check;
  check.target = target;
  check.options.opts = maybe_opts;
  check.tolerance = 4e-6;
  tests::Memory memory;
  for (const auto& [dtype, elements] : v.Buffers())
    memory.push_back(tests::SampleBuffer(dtype, elements, memory.size() + 1, true));
  return tests::CheckKernel(ctx, kernel, memory, check).substr(0, 400);
}

std::vector<Opt> OptsFor(const Convolution& v, const Target& target) {
  UOpContext ctx;
  return codegen::HeuristicOpts(ctx, ConvolutionKernel(ctx, v), target);
}

std::vector<Opt> MergesIn(const std::vector<Opt>& opts) {
  std::vector<Opt> out;
  std::ranges::copy_if(opts, std::back_inserter(out),
                       [](const Opt& o) { return o.kind == OptKind::kMerge; });
  return out;
}

int64_t CountIn(const std::vector<Opt>& opts, OptKind kind) {
  return std::ranges::count(opts, kind, &Opt::kind);
}

// Warps of 32 and 64 lanes, with and without shuffles, and groups of warps.
std::vector<Target> Targets() {
  std::vector<Target> out = {tests::BlockTarget(false), tests::BlockTarget(true),
                             tests::BlockTarget(true), tests::BlockTarget(true)};
  out[1].matrix_instructions = NvidiaMatrixInstructions(89);
  out[2].warp_lanes = 64;
  out[2].matrix_loads = out[2].async_copies = false;
  out[2].matrix_instructions = AmdMatrixInstructions("gfx942");
  out[3].matrix_instructions = WarpgroupMatrixInstructions();
  std::ranges::reverse(out[3].matrix_instructions);
  out[3].shared_bytes = 227 << 10;
  return out;
}

// The heuristic: tiles of pixels for rows of seven pixels, images of 35, strides, three channels,
// padding by a select.
TEST(MergeTest, ConvolutionsOfNarrowImagesGetTiles) {
  const Convolution all[] = {{1, 4, 5, 7, 34, 3, 1},
                             {1, 33, 9, 13, 37, 1, 2},
                             {3, 36, 3, 5, 33, 1, 1},
                             {2, 3, 7, 10, 32, 5, 2},
                             {1, 4, 5, 7, 34, 3, 1, Dtype::F32, true}};
  for (Convolution v : all) {
    for (const Target& target : Targets()) {
      const bool multiplies = !target.matrix_instructions.empty();
      v.dtype = multiplies ? Dtype::BF16 : Dtype::F32;
      const std::vector<Opt> opts = OptsFor(v, target);
      EXPECT_FALSE(MergesIn(opts).empty());
      EXPECT_EQ(CountIn(opts, OptKind::kTensorCore), multiplies ? 1 : 0);
      EXPECT_TRUE(CountIn(opts, OptKind::kPack) == 2 || multiplies);
      EXPECT_EQ(Checked(v, target), "")
          << v.channels << " channels, window " << v.window << ", stride " << v.stride;
    }
  }
}

// Tiles of opts of every kind on merged axes, of sizes that they do not divide.
TEST(MergeTest, OtherOptsApplyToMergedAxes) {
  const Convolution v{2, 3, 5, 7, 6, 3, 1};
  const std::vector<std::vector<Opt>> all = {
      {{OptKind::kMerge, 2, 3}, {OptKind::kLocal, 2, 8}, {OptKind::kUpcast, 2, 3}},
      {{OptKind::kMerge, 0, 2}, {OptKind::kMerge, 0, 3}, {OptKind::kVector, 0, 4}},
      {{OptKind::kMerge, 0, 3}, {OptKind::kPadTo, 0, 16}, {OptKind::kLocal, 0, 16}},
      {{OptKind::kMerge, 1, 0}, {OptKind::kMerge, 1, 3}, {OptKind::kLocal, 1, 32}},
      {{OptKind::kMerge, 4, 5}, {OptKind::kGroup, 4, 4}, {OptKind::kUnroll, 6, 3}},
      {{OptKind::kMerge, 4, 6}, {OptKind::kMerge, 4, 5}, {OptKind::kGroupTop, 4, 8}},
      {{OptKind::kMerge, 2, 3},
       {OptKind::kMerge, 5, 6},
       {OptKind::kLocal, 2, 4},
       {OptKind::kBlock, 5, 4},
       {OptKind::kPack, 0, 0}}};
  for (const std::vector<Opt>& opts : all) {
    EXPECT_EQ(Checked(v, tests::BlockTarget(true), &opts), "") << Text(opts.back());
    EXPECT_EQ(Checked(v, tests::BlockTarget(false), &opts), "") << Text(opts.back());
  }
}

// The padding of an axis of one iteration: its blocks and threads must not store the elements of
// the iteration again.
TEST(MergeTest, PaddingOfOneIterationStoresNothing) {
  const Convolution v{1, 3, 5, 7, 6, 1, 1};
  const std::vector<std::vector<Opt>> all = {
      {{OptKind::kPadTo, 0, 3}},
      {{OptKind::kPadTo, 0, 2}, {OptKind::kLocal, 0, 2}},
      {{OptKind::kMerge, 2, 3},
       {OptKind::kMerge, 2, 1},
       {OptKind::kGroupTop, 4, 2},
       {OptKind::kPadTo, 0, 3}},
      {{OptKind::kPadTo, 0, 2}, {OptKind::kUpcast, 0, 2}, {OptKind::kPadTo, 5, 2}}};
  for (const std::vector<Opt>& opts : all)
    EXPECT_EQ(Checked(v, tests::BlockTarget(true), &opts), "") << Text(opts.back());
}

// No more merges than what saves padding: rows of 64 pixels stay, images are merged only if theirs
// do not fill tiles.
TEST(MergeTest, MergesAreThoseThatSavePadding) {
  const Target target = *GpuTarget("sm_90");
  using List = std::vector<Opt>;
  const auto merges = [&](int64_t images, int64_t rows, int64_t columns, int64_t channels,
                          int64_t window) {
    return MergesIn(OptsFor({images, channels, rows, columns, 64, window, 1}, target));
  };
  EXPECT_EQ(merges(8, 64, 64, 64, 3), List());
  EXPECT_EQ(merges(8, 28, 28, 64, 3), (List{{OptKind::kMerge, 2, 3}}));
  EXPECT_EQ(merges(8, 14, 14, 64, 3), (List{{OptKind::kMerge, 0, 2}, {OptKind::kMerge, 0, 3}}));
  EXPECT_EQ(merges(1, 64, 64, 3, 7), (List{{OptKind::kMerge, 4, 5}, {OptKind::kMerge, 4, 6}}));
}

// Pixels that follow each other in memory: the divisions disappear, and the axis is contiguous.
TEST(MergeTest, NeighboursInMemoryStayNeighbours) {
  UOpContext ctx;
  const UOp kernel = ConvolutionKernel(ctx, {1, 4, 6, 10, 3, 1, 1});
  const Target target = tests::BlockTarget(true);  // outlives the plan
  codegen::OptPlan plan(ctx, kernel, target);
  ASSERT_TRUE(plan.Add({OptKind::kMerge, 2, 3}).ok());
  const std::vector<UOp> axes = codegen::Axes(ctx, plan.kernel());
  ASSERT_EQ(axes.size(), 7U);
  EXPECT_TRUE(axes[2].src(0).IsConstInt(60));
  EXPECT_TRUE(axes[3].src(0).IsConstInt(1));
  int accesses = 0;
  for (UOp u : ir::Toposort(ctx, plan.kernel())) {
    EXPECT_FALSE(u.Is({Op::FLOORDIV, Op::FLOORMOD}));
    if (u.Is(Op::INDEX) && u.src(0).slot() != 2) {
      EXPECT_EQ(codegen::StrideAlong(ctx, u.src(1), axes[2]), 1);
      ++accesses;
    }
  }
  EXPECT_EQ(accesses, 2);
}

TEST(MergeTest, RefusesWhatIsNoPairOfAxes) {
  UOpContext ctx;
  const UOp kernel = ConvolutionKernel(ctx, {2, 4, 6, 10, 3, 3, 1});
  const Target blocks = tests::BlockTarget(true);
  const auto why = [&](const std::vector<Opt>& opts, const Target& target) {
    codegen::OptPlan plan(ctx, kernel, target);
    for (size_t i = 0; i + 1 < opts.size(); ++i) EXPECT_TRUE(plan.Add(opts[i]).ok());
    const absl::Status status = plan.Add(opts.back());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return StatusText(status);
  };
  const Opt merge{OptKind::kMerge, 2, 3};
  EXPECT_THAT(why({{OptKind::kMerge, 2, 2}}, blocks), HasSubstr("with itself"));
  EXPECT_THAT(why({{OptKind::kMerge, 2, 4}}, blocks), HasSubstr("one of the axes is reduced"));
  EXPECT_THAT(why({{OptKind::kMerge, 2, 7}}, blocks), HasSubstr("7 axes"));
  EXPECT_THAT(why({{OptKind::kMerge, -1, 2}}, blocks), HasSubstr("7 axes"));
  EXPECT_THAT(why({merge, {OptKind::kMerge, 0, 3}}, blocks), HasSubstr("one iteration"));
  EXPECT_THAT(why({merge, {OptKind::kPadTo, 3, 3}}, blocks), HasSubstr("part of another"));
  EXPECT_THAT(why({merge, {OptKind::kVector, 3, 4}}, blocks), HasSubstr("part of another"));
  EXPECT_THAT(why({{OptKind::kLocal, 2, 2}, merge}, blocks), HasSubstr("before all other opts"));
  EXPECT_THAT(why({merge}, tests::WideTarget()), HasSubstr("no blocks"));
  // A sum over one of the axes alone.
  tests::KernelBuilder b(ctx);
  const UOp i = b.Loop(4), k = b.Reduced(5), l = b.Reduced(6);
  const UOp inner =
      ir::ReduceRanges(ctx, Op::ADD, b.Load(b.Buffer(1, Dtype::F32, 30), b.At(k, 6, l)), {&l, 1});
  const UOp sum = ir::ReduceRanges(ctx, Op::MAX, inner, {&k, 1});
  const UOp nested = b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, 4), i, sum, {i})});
  EXPECT_THAT(codegen::MaybeNoMerge(ctx, nested, k, l), HasSubstr("different"));
}

}  // namespace
}  // namespace uopd
