// SPDX-License-Identifier: MIT
// Register tiles of depthwise convolutions with channels innermost, and of matrix products whose
// steps do not fit in the registers if they are unrolled.
#include <algorithm>

#include "core/codegen/opts/choose/heuristic.h"
#include "core/render/formats.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/kernel_check.h"

namespace uopd {
namespace {

using codegen::Opt;
using codegen::OptKind;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using ir::UOpContext;
using ::testing::HasSubstr;
using ::testing::Not;
using tests::CompiledText;
using tests::KernelBuilder;
using tests::SampleBuffer;

// out[h][w][c] = the sum over 3 x 3 of in[h stride + i - 1][w stride + j - 1][c] weight[i][j][c].
// Axes: h, w, c, i, j. Slots: out, in, weight.
UOp DepthwiseKernel(UOpContext& ctx, int64_t height, int64_t width, int64_t channels,
                    int64_t stride) {
  KernelBuilder b(ctx);
  const int64_t rows = height * stride, columns = width * stride;
  const UOp h = b.Loop(height), w = b.Loop(width), c = b.Loop(channels), i = b.Reduced(3),
            j = b.Reduced(3);
  const UOp y = Add(ctx, b.At(h, stride, i), ctx.Idx(-1)),
            x = Add(ctx, b.At(w, stride, j), ctx.Idx(-1));
  const auto inside = [&](UOp at, int64_t size) {
    return And(ctx, ir::Lt(ctx, ctx.Idx(-1), at), ir::Lt(ctx, at, ctx.Idx(size)));
  };
  const UOp in =
      b.Load(b.Buffer(1, Dtype::F32, rows * columns * channels),
             b.At(b.At(y, columns, x), channels, c), And(ctx, inside(y, rows), inside(x, columns)));
  const UOp weight =
      b.Load(b.Buffer(2, Dtype::F32, 9 * channels), b.At(b.At(i, 3, j), channels, c));
  const UOp sum = ir::ReduceRanges(ctx, Op::ADD, Mul(ctx, in, weight), std::vector<UOp>{i, j});
  return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, height * width * channels),
                                b.At(b.At(h, width, w), channels, c), sum, {h, w, c})});
}

int64_t AmountOf(const std::vector<Opt>& opts, OptKind kind, int axis) {
  int64_t n = 1;
  for (const Opt& o : opts) n *= o.kind == kind && o.axis == axis ? o.amount : 1;
  return n;
}

TEST(WindowTileTest, NeighbouringPixelsShareWhatTheyLoad) {
  for (const int64_t stride : {1, 2}) {
    UOpContext ctx;
    const UOp kernel = DepthwiseKernel(ctx, 14, 14, 96, stride);
    const std::vector<Opt> opts = codegen::HeuristicOpts(ctx, kernel, tests::WideTarget());
    EXPECT_EQ(AmountOf(opts, OptKind::kVector, 2), 16);
    const int64_t pixels =
        AmountOf(opts, OptKind::kUpcast, 0) * AmountOf(opts, OptKind::kUpcast, 1);
    EXPECT_GE(pixels, 4);
    EXPECT_LE(pixels, 16);
    codegen::Options options;
    options.opts = &opts;
    const auto lowered = codegen::Lower(ctx, kernel, tests::WideTarget(), options);
    ASSERT_TRUE(lowered.ok()) << StatusText(lowered.status());
    const auto text = render::RenderLlvmIr(ctx, lowered->linear, "k", lowered->variables);
    ASSERT_TRUE(text.ok()) << StatusText(text.status());
    // Terms are multiplied and added in one instruction. The border has one gate for all channels:
    // it chooses between the first of them and as many zeros.
    EXPECT_THAT(*text, HasSubstr("@llvm.fmuladd.v16f32"));
    EXPECT_THAT(*text, HasSubstr("ptr @zeros"));
    EXPECT_THAT(*text, Not(HasSubstr("@zeros = internal unnamed_addr constant [8 x i8]")));
    EXPECT_THAT(*text, Not(HasSubstr("@llvm.masked.load")));
  }
}

// Also where channels, rows or columns are fewer than a vector or a tile.
TEST(WindowTileTest, ComputesDepthwiseConvolutions) {
  for (const auto& [height, width, channels] :
       {std::tuple<int64_t, int64_t, int64_t>{5, 9, 16}, {3, 5, 24}, {14, 14, 40}, {1, 1, 7}}) {
    for (const int64_t stride : {1, 2}) {
      UOpContext ctx;
      const UOp kernel = DepthwiseKernel(ctx, height, width, channels, stride);
      const tests::Memory memory = {
          SampleBuffer(Dtype::F32, height * width * channels, 1, true),
          SampleBuffer(Dtype::F32, height * width * channels * stride * stride, 2, true),
          SampleBuffer(Dtype::F32, 9 * channels, 3, true)};
      for (const auto language : {CompiledText::kC, CompiledText::kLlvmIr}) {
        tests::CheckOptions check;
        check.target = tests::WideTarget(), check.language = language, check.tolerance = 2e-6;
        EXPECT_EQ(tests::CheckKernel(ctx, kernel, memory, check), "")
            << height << " " << width << " " << channels << " " << stride;
      }
    }
  }
}

// One register too few would cost dearly: LLVM would keep most accumulators in memory.
TEST(WindowTileTest, StepsOfMatrixProductsFitInTheRegisters) {
  for (const auto& [rows, columns, terms] :
       {std::tuple<int64_t, int64_t, int64_t>{196, 32, 96}, {3136, 144, 24}, {196, 64, 64}}) {
    UOpContext ctx;
    const UOp kernel = tests::MatmulKernel(ctx, rows, columns, terms, false, false);
    const std::vector<Opt> opts = codegen::HeuristicOpts(ctx, kernel, tests::WideTarget());
    const int64_t vectors = AmountOf(opts, OptKind::kUpcast, 1),
                  accumulators = vectors * AmountOf(opts, OptKind::kUpcast, 0),
                  steps = AmountOf(opts, OptKind::kUnroll, 2);
    EXPECT_GE(accumulators, 16);
    EXPECT_LE(accumulators + std::min(std::max<int64_t>(vectors, 4), steps * vectors) + 1, 32)
        << rows << " " << columns << " " << terms;
  }
}

// A product of few terms is tiled like any other one, not unrolled into one long step.
TEST(WindowTileTest, ProductsOfFewTermsShareLoads) {
  UOpContext ctx;
  const UOp kernel = tests::MatmulKernel(ctx, 1024, 96, 16, false, false);
  const std::vector<Opt> opts = codegen::HeuristicOpts(ctx, kernel, tests::WideTarget());
  EXPECT_GE(AmountOf(opts, OptKind::kUpcast, 0) * AmountOf(opts, OptKind::kUpcast, 1), 16);
  EXPECT_GE(AmountOf(opts, OptKind::kUpcast, 0), 4);
}

// A convolution of 3 x 3 with its weights in blocks of 64 channels. Axes: h, w, block, c, i, j, k.
UOp BlockedConvolution(UOpContext& ctx, int64_t size, int64_t blocks, int64_t depth) {
  KernelBuilder b(ctx);
  const UOp h = b.Loop(size), w = b.Loop(size), block = b.Loop(blocks), c = b.Loop(64),
            i = b.Reduced(3), j = b.Reduced(3), k = b.Reduced(depth);
  const UOp y = Add(ctx, h, i), x = Add(ctx, w, j);
  const UOp in = b.Load(b.Buffer(1, Dtype::F32, (size + 2) * (size + 2) * depth),
                        b.At(b.At(y, size + 2, x), depth, k));
  const UOp weight = b.Load(b.Buffer(2, Dtype::F32, blocks * 9 * depth * 64),
                            b.At(b.At(b.At(b.At(block, 3, i), 3, j), depth, k), 64, c));
  const UOp sum = ir::ReduceRanges(ctx, Op::ADD, Mul(ctx, in, weight), std::vector<UOp>{i, j, k});
  return b.Kernel(
      {b.StoreLoops(b.Buffer(0, Dtype::F32, size * size * blocks * 64),
                    b.At(b.At(b.At(h, size, w), blocks, block), 64, c), sum, {h, w, block, c})});
}

// Windows overlap: an image of 16 x 16 is read once, not nine times. So the weights are what
// threads should not both read.
TEST(WindowTileTest, ThreadsDivideTheWeightsWhereTheseAreLarger) {
  const auto thread_axis = [](int64_t size, int64_t blocks, int64_t depth) {
    UOpContext ctx;
    const UOp kernel = BlockedConvolution(ctx, size, blocks, depth);
    for (const Opt& o : codegen::HeuristicOpts(ctx, kernel, tests::WideTarget())) {
      if (o.kind == OptKind::kThread) return o.axis;
    }
    return -1;
  };
  EXPECT_EQ(thread_axis(14, 4, 256), 2);
  EXPECT_EQ(thread_axis(56, 2, 64), 0);
}

}  // namespace
}  // namespace uopd
