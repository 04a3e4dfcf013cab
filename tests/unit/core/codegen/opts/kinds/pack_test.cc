// SPDX-License-Identifier: MIT
// PACK, overlapping tiles, loads of lanes a few elements apart, and squares that are transposed in
// registers: each against the interpreter, with odd sizes and guarded buffers.
#include <gmock/gmock.h>

#include "core/codegen/opts/choose/heuristic.h"
#include "core/codegen/opts/opt.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/ir/graph.h"
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
using testing::HasSubstr;
using tests::KernelBuilder;
using tests::Memory;
using tests::SampleBuffer;
using tests::WideTarget;

std::string CheckPacked(UOpContext& ctx, UOp kernel, const Memory& memory,
                        const std::vector<Opt>& opts, double tolerance = 1e-6) {
  return tests::CheckOpts(ctx, kernel, memory, opts, tolerance);
}

int Count(const UOpContext& ctx, UOp sink, Op op) {
  int n = 0;
  for (UOp u : ir::Toposort(ctx, sink)) n += u.Is(op);
  return n;
}

// A convolution with 3 x 3 windows, without padding, of `side` x `side` results of 64 channels.
UOp Convolution(UOpContext& ctx, int64_t side) {
  KernelBuilder b(ctx);
  const int64_t channels = 64, in = side + 2;
  const UOp n = b.Loop(8), o = b.Loop(channels), y = b.Loop(side), x = b.Loop(side);
  const UOp c = b.Reduced(channels), dy = b.Reduced(3), dx = b.Reduced(3);
  const UOp row = ir::Add(ctx, y, dy), column = ir::Add(ctx, x, dx);
  const UOp from = b.At(b.At(b.At(n, channels, c), in, row), in, column);
  const UOp weight = b.At(b.At(b.At(o, channels, c), 3, dy), 3, dx);
  const UOp product = ir::Mul(ctx, b.Load(b.Buffer(1, Dtype::F32, 8 * channels * in * in), from),
                              b.Load(b.Buffer(2, Dtype::F32, channels * channels * 9), weight));
  return b.Kernel({b.StoreLoops(
      b.Buffer(0, Dtype::F32, 8 * channels * side * side),
      b.At(b.At(b.At(n, channels, o), side, y), side, x),
      ir::ReduceRanges(ctx, Op::ADD, product, std::vector<UOp>{c, dy, dx}), {n, o, y, x})});
}

class PackTest : public testing::TestWithParam<int> {};

TEST_P(PackTest, EveryOperandOfAMatmul) {
  const bool ta = (GetParam() & 1) != 0, tb = (GetParam() & 2) != 0;
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{13, 37, 20}, {16, 32, 7}, {1, 16, 33}}) {
    UOpContext ctx;
    const UOp kernel = tests::MatmulKernel(ctx, m, n, k, ta, tb);
    const Memory memory = {SampleBuffer(Dtype::F32, m * n, 1, true),
                           SampleBuffer(Dtype::F32, m * k, 2, true),
                           SampleBuffer(Dtype::F32, k * n, 3, true)};
    ASSERT_EQ(codegen::Loads(ctx, kernel).size(), 2U);
    const std::vector<Opt> tile = {{OptKind::kVector, 1, 16},
                                   {OptKind::kUpcast, 0, std::min<int64_t>(m, 5)},
                                   {OptKind::kUnroll, 2, 2}};
    for (const std::vector<int>& packed : {std::vector<int>{0}, {1}, {0, 1}, {1, 0}}) {
      std::vector<Opt> opts = tile;
      for (int load : packed) opts.push_back({OptKind::kPack, load, 0});
      EXPECT_EQ(CheckPacked(ctx, kernel, memory, opts), "") << m << " " << packed.size();
    }
    EXPECT_EQ(CheckPacked(ctx, kernel, memory, {{OptKind::kPack, 1, 0}}), "") << "without a tile";
    EXPECT_EQ(CheckPacked(ctx, kernel, memory, {{OptKind::kVector, 2, 4}, {OptKind::kPack, 0, 0}}),
              "")
        << "lanes of the sum";
  }
}
INSTANTIATE_TEST_SUITE_P(Transposed, PackTest, testing::Range(0, 4));

// The copy of B is made inside the loop over its panels and outside of that over the rows of A.
TEST(PackOptTest, TheCopyIsMadeOnceForAllRows) {
  UOpContext ctx;
  const UOp kernel = tests::MatmulKernel(ctx, 64, 64, 32, false, false);
  const std::vector<Opt> opts = {{OptKind::kVector, 1, 16}, {OptKind::kPack, 1, 0}};
  codegen::Options options;
  options.opts = &opts;
  const auto lowered = codegen::Lower(ctx, kernel, WideTarget(), options);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  // Loops: panels { fill; rows { sum } }.
  std::vector<int> depth_of_fill;
  int depth = 0;
  for (UOp u : lowered->linear.srcs()) {
    if (u.Is(Op::RANGE)) ++depth;
    if (u.Is(Op::END)) --depth;
    const bool stores_array = u.Is(Op::STORE) && u.src(0).arg().AsInt() == 16 &&
                              u.src(0).src(1).op() != Op::CONST && !u.src(0).src(0).Is(Op::PARAM);
    if (stores_array) depth_of_fill.push_back(depth);
  }
  EXPECT_EQ(depth_of_fill, std::vector<int>{2}) << "the panel's loop and the fill's";
}

// b0[i, j] = the sum over k of b2[b1[k]^2 % 4 + i, j], with positions that are kept: the loop that
// keeps them is none of the copy.
TEST(PackOptTest, AddressesOfKeptPositions) {
  UOpContext ctx;
  KernelBuilder b(ctx);
  const UOp i = b.Loop(4), j = b.Loop(16), kept = b.Reduced(4), k = b.Reduced(4);
  const UOp at = b.Load(b.Buffer(1, Dtype::I32, 4), kept);
  const UOp stage =
      ir::Staged(ctx, ir::Alu(ctx, Op::MUL, {at, at}), 4, kept, UOp(), std::array{kept});
  const UOp square = ir::Load(ctx, ir::Index(ctx, stage, k));
  const UOp below4 = ir::Alu(ctx, Op::AND, {square, ctx.Int(Dtype::I32, 3)});
  const UOp row = ir::Add(ctx, ir::Cast(ctx, below4, Dtype::Index), i);
  const UOp x = b.Load(b.Buffer(2, Dtype::F32, 8 * 16), b.At(row, 16, j));
  const UOp sum = ir::ReduceRanges(ctx, Op::ADD, x, std::array{k});
  const UOp kernel =
      b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, 64), b.At(i, 16, j), sum, {i, j})});
  Memory memory = {SampleBuffer(Dtype::F32, 64, 1, true), std::vector<uint8_t>(16, 0),
                   SampleBuffer(Dtype::F32, 128, 2, true)};
  for (uint8_t n = 0; n < 4; ++n) memory[1][static_cast<size_t>(4 * n)] = 3 - n;
  int legal = 0;
  for (const char* text : {"VECTOR(1, 8) PACK(1)", "VECTOR(1, 8) VECTOR(2, 4) PACK(1)",
                           "VECTOR(1, 8) UPCAST(0, 2) PACK(1)", "VECTOR(2, 4) PACK(0)",
                           "VECTOR(2, 4) PACK(1)", "PACK(1)"}) {
    const auto opts = codegen::ParseOpts(text).value();
    if (!codegen::Lower(ctx, kernel, WideTarget(), {.opts = &opts}).ok()) continue;
    ++legal;
    EXPECT_EQ(CheckPacked(ctx, kernel, memory, opts), "") << text;
  }
  EXPECT_GE(legal, 3);
}

// A transposed operand whose sum has whole vectors of steps is copied in squares: no element of it
// is loaded alone.
TEST(PackOptTest, TransposesInRegisters) {
  for (const int64_t unrolled : {1, 2, 32}) {
    UOpContext ctx;
    const int64_t m = 13, n = 48, k = 64;
    const UOp kernel = tests::MatmulKernel(ctx, m, n, k, false, true);
    const Memory memory = {SampleBuffer(Dtype::F32, m * n, 1, true),
                           SampleBuffer(Dtype::F32, m * k, 2, true),
                           SampleBuffer(Dtype::F32, k * n, 3, true)};
    const std::vector<Opt> opts = {{OptKind::kVector, 1, 16},
                                   {OptKind::kUpcast, 0, 4},
                                   {OptKind::kUnroll, 2, unrolled},
                                   {OptKind::kPack, 1, 0}};
    EXPECT_EQ(CheckPacked(ctx, kernel, memory, opts), "") << unrolled;
    codegen::Options options;
    options.opts = &opts;
    const auto lowered = codegen::Lower(ctx, kernel, WideTarget(), options);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    int vectors = 0;
    for (UOp u : lowered->linear.srcs()) {
      if (!u.Is(Op::LOAD) || !u.src(0).src(0).Is(Op::PARAM) || u.src(0).src(0).slot() != 2)
        continue;
      EXPECT_EQ(u.src(0).arg().AsInt(), 16) << unrolled;
      ++vectors;
    }
    EXPECT_EQ(vectors, 16) << unrolled;
  }
}

TEST(PackOptTest, RefusesWhatItCannotPack) {
  UOpContext ctx;
  const UOp kernel = tests::MatmulKernel(ctx, 8, 16, 300'000, false, false);
  const Target target = WideTarget();
  codegen::OptPlan plan(ctx, kernel, target);
  const auto why = [&](Opt opt) { return StatusText(plan.Add(opt)); };
  EXPECT_THAT(why({OptKind::kPack, 2, 0}), HasSubstr("the kernel has 2 loads to pack"));
  EXPECT_THAT(why({OptKind::kPack, -1, 0}), HasSubstr("the kernel has 2 loads to pack"));
  EXPECT_THAT(why({OptKind::kPack, 0, 3}), HasSubstr("PACK has no amount"));
  EXPECT_THAT(why({OptKind::kPack, 0, 0}), HasSubstr("would stage 1200000 bytes"));
  EXPECT_TRUE(plan.opts().empty());
  // A buffer that the kernel stores to is no load to pack, nor is a load outside of a reduction.
  KernelBuilder b(ctx);
  const UOp i = b.Loop(8), k = b.Reduced(4), x = b.Buffer(0, Dtype::F32, 32);
  const UOp sum = ir::ReduceRanges(ctx, Op::ADD, b.Load(x, b.At(i, 4, k)), std::span(&k, 1));
  const UOp in_place =
      b.Kernel({b.StoreLoops(x, i, Add(ctx, sum, b.Load(b.Buffer(1, Dtype::F32, 8), i)), {i})});
  EXPECT_TRUE(codegen::Loads(ctx, in_place).empty());
}

// A row of 7 pixels would leave lanes empty. Channels fill them, although their weights and results
// do not lie together.
TEST(PackOptTest, ChannelsAreTheLanesOfNarrowPictures) {
  const auto opts = [](int64_t side, int64_t private_bytes) {
    UOpContext ctx;
    Target target = WideTarget();
    target.private_bytes = private_bytes;
    return codegen::HeuristicOpts(ctx, Convolution(ctx, side), target);
  };
  EXPECT_THAT(opts(7, 512 << 10),
              testing::IsSupersetOf({Opt{OptKind::kVector, 1, 16}, Opt{OptKind::kPack, 1, 0}}));
  // There is no room for two vectors of all weights, of 64 bytes each.
  EXPECT_THAT(opts(7, 2 * 64 * 576 - 1),
              testing::Not(testing::Contains(Opt{OptKind::kVector, 1, 16})));
}

// The sum of a row is computed once, not for each result: as lanes, rows would be packed for
// nothing.
TEST(PackOptTest, RowsOfANormAreNoLanes) {
  UOpContext ctx;
  Target target = WideTarget();
  target.private_bytes = 1 << 20;
  KernelBuilder b(ctx);
  const UOp i = b.Loop(4096), j = b.Loop(4096), k = b.Reduced(4096), l = b.Reduced(4096);
  const UOp x = b.Buffer(1, Dtype::F32, 4096 * 4096);
  const auto at = [&](UOp column) { return b.Load(x, b.At(i, 4096, column)); };
  const auto sum = [&](UOp value, UOp range) {
    return ir::ReduceRanges(ctx, Op::ADD, value, std::vector<UOp>{range});
  };
  const UOp mean = ir::Mul(ctx, sum(at(k), k), ctx.Float(Dtype::F32, 1.0 / 4096));
  const UOp difference = ir::Sub(ctx, at(l), mean);
  const UOp length = ir::Alu(ctx, Op::SQRT, {sum(ir::Mul(ctx, difference, difference), l)});
  const UOp result = ir::Alu(ctx, Op::FDIV, {ir::Sub(ctx, at(j), mean), length});
  const UOp kernel = b.Kernel(
      {b.StoreLoops(b.Buffer(0, Dtype::F32, 4096 * 4096), b.At(i, 4096, j), result, {i, j})});
  const auto opts = codegen::HeuristicOpts(ctx, kernel, target);
  EXPECT_THAT(opts, testing::Contains(Opt{OptKind::kVector, 1, 16}));
  EXPECT_THAT(opts, testing::Not(testing::Contains(Opt{OptKind::kVector, 0, 16})));
}

// The number of elements does not fit 64 bits.
TEST(PackOptTest, RefusesACopyOfAnySize) {
  UOpContext ctx;
  KernelBuilder b(ctx);
  const int64_t n = int64_t{1} << 22;
  const UOp i = b.Loop(8), k = b.Reduced(n), l = b.Reduced(n), m = b.Reduced(n);
  const UOp at = ir::Alu(ctx, Op::FLOORMOD, {Add(ctx, Add(ctx, k, l), m), ctx.Idx(4)});
  const std::array<UOp, 3> ranges = {k, l, m};
  const UOp sum = ir::ReduceRanges(ctx, Op::ADD, b.Load(b.Buffer(1, Dtype::F32, 4), at), ranges);
  const UOp kernel = b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, 8), i, sum, {i})});
  const Target target = WideTarget();
  codegen::OptPlan plan(ctx, kernel, target);
  EXPECT_THAT(StatusText(plan.Add({OptKind::kPack, 0, 0})), HasSubstr("are too long"));
  EXPECT_TRUE(codegen::Lower(ctx, kernel, target, {}).ok());
}

// Tiles that do not divide an axis: the last one overlaps the one before it, so no access is gated.
TEST(OverlapTest, TilesThatDoNotDivideNeedNoGates) {
  UOpContext ctx;
  const UOp kernel = tests::MatmulKernel(ctx, 13, 37, 6, false, false);
  const std::vector<Opt> opts = {
      {OptKind::kVector, 1, 16}, {OptKind::kUpcast, 0, 5}, {OptKind::kThread, 0, 2}};
  const auto applied = codegen::ApplyOpts(ctx, kernel, WideTarget(), opts);
  ASSERT_TRUE(applied.ok()) << applied.status();
  for (UOp u : ir::Toposort(ctx, *applied)) {
    if (u.Is(Op::INDEX)) {
      EXPECT_EQ(u.n_src(), 2U);
    }
  }
  const Memory memory = {SampleBuffer(Dtype::F32, 13 * 37, 1, true),
                         SampleBuffer(Dtype::F32, 13 * 6, 2, true),
                         SampleBuffer(Dtype::F32, 6 * 37, 3, true)};
  EXPECT_EQ(CheckPacked(ctx, kernel, memory, opts), "");
}

// x[i] = 2 x[i] + y[i]: computing an element twice would double it twice.
TEST(OverlapTest, NeverInPlace) {
  UOpContext ctx;
  KernelBuilder b(ctx);
  const UOp i = b.Loop(45), x = b.Buffer(0, Dtype::F32, 45);
  const UOp kernel =
      b.Kernel({b.StoreLoops(x, i,
                             Add(ctx, Mul(ctx, b.Load(x, i), ctx.Float(Dtype::F32, 2)),
                                 b.Load(b.Buffer(1, Dtype::F32, 45), i)),
                             {i})});
  const Memory memory = {SampleBuffer(Dtype::F32, 45, 1, true),
                         SampleBuffer(Dtype::F32, 45, 2, true)};
  for (const std::vector<Opt>& opts : {std::vector<Opt>{{OptKind::kVector, 0, 16}},
                                       {{OptKind::kUpcast, 0, 7}},
                                       {{OptKind::kThread, 0, 2}, {OptKind::kUpcast, 0, 4}}}) {
    EXPECT_EQ(CheckPacked(ctx, kernel, memory, opts), "") << Text(opts[0]);
  }
}

// out[i] = sum over k of x[stride * i + k - 1], with zeros around x; x ends at a guarded page.
TEST(SmallStrideTest, LoadsNothingBeyondTheLastLane) {
  for (int64_t stride : {2, 3, 4, 5}) {
    for (int64_t n : {19, 40}) {
      for (const bool padded : {false, true}) {
        UOpContext ctx;
        KernelBuilder b(ctx);
        const int64_t size = padded ? stride * (n - 1) + 1 : stride * (n - 1) + 3;
        const UOp i = b.Loop(n), k = b.Reduced(3), x = b.Buffer(1, Dtype::F32, size);
        const UOp at = Add(ctx, b.At(i, stride, k), ctx.Idx(padded ? -1 : 0));
        const UOp gate =
            padded ? And(ctx, ir::Lt(ctx, ctx.Idx(-1), at), ir::Lt(ctx, at, ctx.Idx(size))) : UOp();
        const UOp sum = ir::ReduceRanges(ctx, Op::ADD, b.Load(x, at, gate), std::span(&k, 1));
        const UOp kernel = b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, n), i, sum, {i})});
        const Memory memory = {SampleBuffer(Dtype::F32, n, 1, true),
                               SampleBuffer(Dtype::F32, size, 2, true)};
        for (const std::vector<Opt>& opts :
             {std::vector<Opt>{{OptKind::kVector, 0, 16}},
              {{OptKind::kVector, 0, 8}, {OptKind::kUnroll, 1, 0}},
              {{OptKind::kVector, 0, 4}, {OptKind::kUpcast, 0, 3}}}) {
          EXPECT_EQ(CheckPacked(ctx, kernel, memory, opts), "")
              << stride << " " << n << " " << padded << " " << Text(opts[0]);
        }
      }
    }
  }
}

UOp Transposition(UOpContext& ctx, int64_t rows, int64_t columns, Dtype dtype) {
  KernelBuilder b(ctx);
  const UOp i = b.Loop(rows), j = b.Loop(columns);
  return b.Kernel(
      {b.StoreLoops(b.Buffer(0, dtype, rows * columns), b.At(i, columns, j),
                    b.Load(b.Buffer(1, dtype, rows * columns), b.At(j, rows, i)), {i, j})});
}

TEST(SquareTest, ATransposeLoadsVectors) {
  for (const Dtype dtype : {Dtype::F32, Dtype::I64, Dtype::U8}) {
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{16, 16}, {20, 37}, {33, 8}}) {
      for (int64_t lanes : {4, 8}) {
        UOpContext ctx;
        const UOp kernel = Transposition(ctx, rows, columns, dtype);
        const std::vector<Opt> opts = {{OptKind::kVector, 1, lanes}, {OptKind::kUpcast, 0, lanes}};
        const Memory memory = {SampleBuffer(dtype, rows * columns, 1, false),
                               SampleBuffer(dtype, rows * columns, 2, false)};
        EXPECT_EQ(CheckPacked(ctx, kernel, memory, opts, 0), "") << rows << " " << lanes;
        codegen::Options options;
        options.opts = &opts;
        const auto lowered = codegen::Lower(ctx, kernel, WideTarget(), options);
        ASSERT_TRUE(lowered.ok()) << lowered.status();
        EXPECT_EQ(Count(ctx, lowered->linear, Op::LOAD), lanes) << "vector loads of one square";
      }
    }
  }
}

TEST(SquareTest, TheHeuristicChoosesIt) {
  UOpContext ctx;
  const UOp kernel = Transposition(ctx, 256, 256, Dtype::F32);
  const auto lowered = codegen::Lower(ctx, kernel, WideTarget(), {});
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_EQ(Count(ctx, lowered->linear, Op::LOAD), 16);
}

}  // namespace
}  // namespace uopd
