// SPDX-License-Identifier: MIT
// Products of whole tiles (cpu/passes/wmma_tiles.h), against the interpreter: as C, and as LLVM IR
// with the instructions of AMX emulated.
#include <array>
#include <cmath>

#include "core/codegen/cpu/passes/wmma_tiles.h"
#include "core/ir/graph.h"
#include "core/ir/io/wire.h"
#include "core/ir/wmma_block.h"
#include "core/schedule/schedule.h"
#include "gtest/gtest.h"
#include "tests/support/kernel_check.h"
#include "tests/support/model_graphs.h"

namespace uopd {
namespace {

using codegen::Opt;
using codegen::OptKind;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using ir::UOpContext;
using tests::CheckKernel;
using tests::CheckOptions;
using tests::CompiledText;
using tests::KernelBuilder;
using tests::Memory;
using tests::SampleBuffer;

Target TileTarget(CompiledText::Language language = CompiledText::kC) {
  Target out = tests::WideTarget();
  out.matrix_instructions = tests::TileInstructions(language);
  return out;
}

// With `maybe_opts` null: those of the heuristic.
std::vector<ir::WmmaBlock> BlocksOf(UOpContext& ctx, UOp kernel,
                                    const std::vector<Opt>* maybe_opts) {
  const auto lowered = codegen::Lower(ctx, kernel, TileTarget(), {.opts = maybe_opts});
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  std::vector<ir::WmmaBlock> out;
  if (!lowered.ok()) return out;
  for (UOp u : lowered->linear.srcs()) {
    if (u.Is(Op::WMMA_BLOCK)) out.push_back(ir::WmmaBlock::Of(u));
  }
  return out;
}

std::vector<ir::WmmaBlock> BlocksOf(UOpContext& ctx, UOp kernel, const std::vector<Opt>& opts) {
  return BlocksOf(ctx, kernel, &opts);
}

void CheckTiles(UOpContext& ctx, UOp kernel, const Memory& memory,
                const std::vector<Opt>* maybe_opts, double tolerance) {
  for (const auto language : {CompiledText::kC, CompiledText::kLlvmIr}) {
    CheckOptions check;
    check.target = TileTarget(language), check.options.opts = maybe_opts;
    check.language = language, check.tolerance = tolerance;
    EXPECT_EQ(CheckKernel(ctx, kernel, memory, check).substr(0, 300), "");
  }
}
void CheckTiles(UOpContext& ctx, UOp kernel, const Memory& memory, const std::vector<Opt>& opts,
                double tolerance) {
  CheckTiles(ctx, kernel, memory, &opts, tolerance);
}

const Opt kTc{OptKind::kTensorCore, 2, 0}, kLanes{OptKind::kVector, 1, 16},
    kTwoVectors{OptKind::kUpcast, 1, 2}, kPackColumns{OptKind::kPack, 1, 0};
constexpr Dtype kPairs[] = {Dtype::BF16, Dtype::F16};
Opt Rows(int64_t n) { return {OptKind::kUpcast, 0, n}; }

// Rows and columns that are no multiples of a tile overlap the tile before.
class PairsTest : public testing::TestWithParam<Dtype> {
 protected:
  const Dtype d_ = GetParam();
};
INSTANTIATE_TEST_SUITE_P(Of, PairsTest, testing::ValuesIn(kPairs),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST_P(PairsTest, ProductsOfMatrices) {
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{32, 32, 64}, {37, 51, 192}, {16, 16, 128}, {100, 40, 64}}) {
    UOpContext ctx;
    const UOp kernel = tests::WideningMatmulKernel(ctx, m, n, k, false, false, d_, d_, Dtype::F32);
    const Memory memory = {SampleBuffer(Dtype::F32, m * n, 1, true),
                           SampleBuffer(d_, m * k, 2, true), SampleBuffer(d_, k * n, 3, true)};
    for (const int64_t rows : {16, 32}) {
      if (rows > m) continue;
      for (const bool two : {false, true}) {
        if (two && n < 32) continue;
        std::vector<Opt> opts = {kLanes, kTc, Rows(rows), kPackColumns};
        if (two) opts.push_back(kTwoVectors);
        const auto blocks = BlocksOf(ctx, kernel, opts);
        ASSERT_EQ(blocks.size(), 1U) << m << " " << n << " " << rows << " " << two;
        EXPECT_EQ(blocks[0].rows, rows);
        EXPECT_EQ(blocks[0].columns, two ? 32 : 16);
        EXPECT_EQ(blocks[0].words, k / 2);
        EXPECT_EQ(blocks[0].row_stride, k);
        CheckTiles(ctx, kernel, memory, opts, 1e-6);
      }
    }
  }
}

TEST(WmmaTilesTest, ProductsOfBytes) {
  for (const auto& [a, b] : {std::pair{Dtype::U8, Dtype::I8},
                             {Dtype::I8, Dtype::U8},
                             {Dtype::I8, Dtype::I8},
                             {Dtype::U8, Dtype::U8}}) {
    const int64_t m = 35, n = 50, k = 128;
    UOpContext ctx;
    const UOp kernel = tests::WideningMatmulKernel(ctx, m, n, k, false, false, a, b, Dtype::I32);
    const Memory memory = {SampleBuffer(Dtype::I32, m * n, 1, true),
                           SampleBuffer(a, m * k, 2, false), SampleBuffer(b, k * n, 3, false)};
    const std::vector<Opt> opts = {kLanes, kTc, Rows(32), kPackColumns, kTwoVectors};
    const auto blocks = BlocksOf(ctx, kernel, opts);
    ASSERT_EQ(blocks.size(), 1U) << Name(a) << " " << Name(b);
    EXPECT_EQ(blocks[0].a, static_cast<int64_t>(NumberOf(a)));
    EXPECT_EQ(blocks[0].b, static_cast<int64_t>(NumberOf(b)));
    CheckTiles(ctx, kernel, memory, opts, 0);
  }
}

TEST_P(PairsTest, ColumnsAsWordsInMemory) {
  const int64_t m = 33, n = 48, k = 96;
  UOpContext ctx;
  const UOp kernel = tests::WordsMatmulKernel(ctx, m, n, k, d_, d_, Dtype::F32);
  const Memory memory = {SampleBuffer(Dtype::F32, m * n, 1, true), SampleBuffer(d_, m * k, 2, true),
                         SampleBuffer(d_, k * n, 3, true)};
  const std::vector<Opt> opts = {kLanes, kTc, Rows(16), kTwoVectors};
  const auto blocks = BlocksOf(ctx, kernel, opts);
  ASSERT_EQ(blocks.size(), 1U);
  EXPECT_EQ(blocks[0].word_stride, n);
  CheckTiles(ctx, kernel, memory, opts, 1e-6);
}

// out[i, j] = bias[j] + the sum over t < 3 and l of a[i + t, l] b[t, l, j]: the block adds up one
// t.
TEST_P(PairsTest, SumsOverFurtherLoops) {
  UOpContext ctx;
  const int64_t m = 32, n = 32, k = 64, taps = 3;
  KernelBuilder build(ctx);
  const UOp out = build.Buffer(0, Dtype::F32, m * n), a = build.Buffer(1, d_, (m + taps - 1) * k),
            b = build.Buffer(2, d_, taps * k * n), bias = build.Buffer(3, Dtype::F32, n);
  const UOp i = build.Loop(m), j = build.Loop(n), l = build.Reduced(k), t = build.Reduced(taps);
  const UOp x = build.Load(a, build.At(ir::Add(ctx, i, t), k, l)),
            y = build.Load(b, build.At(build.At(t, k, l), n, j));
  const UOp product = ir::Mul(ctx, ir::Cast(ctx, x, Dtype::F32), ir::Cast(ctx, y, Dtype::F32));
  const UOp sum = ir::ReduceRanges(ctx, Op::ADD, product, std::array<UOp, 2>{l, t});
  const UOp kernel = build.Kernel(
      {build.StoreLoops(out, build.At(i, n, j), ir::Add(ctx, sum, build.Load(bias, j)), {i, j})});
  const Memory memory = {
      SampleBuffer(Dtype::F32, m * n, 1, true), SampleBuffer(d_, (m + taps - 1) * k, 2, true),
      SampleBuffer(d_, taps * k * n, 3, true), SampleBuffer(Dtype::F32, n, 4, true)};
  for (const int64_t rows : {16, 32}) {
    const std::vector<Opt> opts = {kLanes, kTc, Rows(rows), kPackColumns, kTwoVectors};
    const auto blocks = BlocksOf(ctx, kernel, opts);
    ASSERT_EQ(blocks.size(), 1U);
    EXPECT_EQ(blocks[0].words, k / 2);
    CheckTiles(ctx, kernel, memory, opts, 1e-6);
  }
}

// The same with rows that are f32 in memory, rounded, and 0 above the first one and below the last
// one.
TEST_P(PairsTest, GatedRowsThatAreRounded) {
  UOpContext ctx;
  const int64_t m = 37, n = 32, k = 64, taps = 3;
  KernelBuilder build(ctx);
  const UOp i = build.Loop(m), j = build.Loop(n), t = build.Reduced(taps), l = build.Reduced(k);
  const UOp row = ir::Add(ctx, ir::Add(ctx, i, t), ctx.Idx(-1));
  const UOp inside = ir::And(ctx, ir::Lt(ctx, ctx.Idx(-1), row), ir::Lt(ctx, row, ctx.Idx(m)));
  const UOp x = build.Load(build.Buffer(1, Dtype::F32, m * k), build.At(row, k, l), inside),
            y = build.Load(build.Buffer(2, d_, taps * k * n), build.At(build.At(t, k, l), n, j));
  const UOp product =
      ir::Mul(ctx, ir::Cast(ctx, ir::Cast(ctx, x, d_), Dtype::F32), ir::Cast(ctx, y, Dtype::F32));
  const UOp sum = ir::ReduceRanges(ctx, Op::ADD, product, std::array<UOp, 2>{t, l});
  const UOp kernel = build.Kernel(
      {build.StoreLoops(build.Buffer(0, Dtype::F32, m * n), build.At(i, n, j), sum, {i, j})});
  EXPECT_EQ(BlocksOf(ctx, kernel, nullptr).size(), 1U);
  const Memory memory = {SampleBuffer(Dtype::F32, m * n, 1, true),
                         SampleBuffer(Dtype::F32, m * k, 2, true),
                         SampleBuffer(d_, taps * k * n, 3, true)};
  CheckTiles(ctx, kernel, memory, nullptr, 1e-6);
}

// What has not the form of tiles is computed row by row: sums over too few elements, too few rows,
// rows that are not contiguous, a matrix that the kernel stores to.
TEST_P(PairsTest, OtherShapesHaveNoBlocks) {
  UOpContext ctx;
  const auto blocks = [&](int64_t m, int64_t k, bool transposed, int64_t rows) {
    const UOp kernel =
        tests::WideningMatmulKernel(ctx, m, 32, k, transposed, false, d_, d_, Dtype::F32);
    return BlocksOf(ctx, kernel, {kLanes, kTc, Rows(rows), kPackColumns}).size();
  };
  EXPECT_EQ(blocks(32, 64, false, 16), 1U);
  EXPECT_EQ(blocks(32, 48, false, 16), 0U);
  EXPECT_EQ(blocks(32, 64, false, 8), 0U);
  EXPECT_EQ(blocks(32, 64, true, 16), 0U);
  const auto of_words = [&](int64_t k) {
    const UOp kernel = tests::WordsMatmulKernel(ctx, 16, 16, k, d_, d_, Dtype::F32);
    return BlocksOf(ctx, kernel, {kLanes, kTc, Rows(16)}).size();
  };
  EXPECT_EQ(of_words(2 * codegen::kMostTileWords), 1U);
  EXPECT_EQ(of_words(2 * codegen::kMostTileWords + 32), 0U);
}

TEST_P(PairsTest, KeepsNanAndInfinity) {
  UOpContext ctx;
  const int64_t m = 16, n = 16, k = 32;
  const UOp kernel = tests::WideningMatmulKernel(ctx, m, n, k, false, false, d_, d_, Dtype::F32);
  Memory memory = {SampleBuffer(Dtype::F32, m * n, 1, true), SampleBuffer(d_, m * k, 2, true), {}};
  for (int64_t i = 0; i < k * n; ++i) {
    memory[2].resize(memory[2].size() + 2);
    tests::StoreScalar(ir::Scalar::Float(d_, 1 + static_cast<double>(i % 7)),
                       &memory[2][static_cast<size_t>(2 * i)]);
  }
  const double specials[] = {NAN, INFINITY, -INFINITY, 1e-40, -3e-39};
  for (size_t row = 0; row < 5; ++row) {
    tests::StoreScalar(ir::Scalar::Float(d_, specials[row]),
                       &memory[1][2 * (row * static_cast<size_t>(k) + row)]);
  }
  CheckTiles(ctx, kernel, memory, {kLanes, kTc, Rows(16), kPackColumns}, 1e-6);
}

// f16 keeps denormals, as operands and in sums: the smallest product, 2^-48, is a usual f32. Their
// sums are exact, so a single one that is taken for zero shows.
TEST(WmmaTilesTest, DenormalsOfF16AreNumbers) {
  UOpContext ctx;
  const int64_t m = 16, n = 16, k = 32;
  const UOp kernel =
      tests::WideningMatmulKernel(ctx, m, n, k, false, false, Dtype::F16, Dtype::F16, Dtype::F32);
  Memory memory = {SampleBuffer(Dtype::F32, m * n, 1, true), {}, {}};
  for (size_t of : {1, 2}) {
    for (int64_t i = 0; i < 16 * k; ++i) {
      memory[of].resize(memory[of].size() + 2);
      const auto multiple = static_cast<double>(i * static_cast<int64_t>(of + 4) % 1024 - 512);
      tests::StoreScalar(ir::Scalar::Float(Dtype::F16, std::ldexp(multiple, -24)),
                         &memory[of][static_cast<size_t>(2 * i)]);
    }
  }
  CheckTiles(ctx, kernel, memory, {kLanes, kTc, Rows(16), kPackColumns}, 0);
}

// There is no instruction of one row for f16: opts without a grid of tiles mean products of
// elements, and the heuristic takes no TC.
TEST(WmmaTilesTest, WithoutTilesF16IsComputedByElements) {
  for (const bool transposed : {false, true}) {
    UOpContext ctx;
    const int64_t m = 8, n = 48, k = 96;
    const UOp kernel = tests::WideningMatmulKernel(ctx, m, n, k, false, transposed, Dtype::F16,
                                                   Dtype::F16, Dtype::F32);
    const Memory memory = {SampleBuffer(Dtype::F32, m * n, 1, true),
                           SampleBuffer(Dtype::F16, m * k, 2, true),
                           SampleBuffer(Dtype::F16, k * n, 3, true)};
    const auto lowered = codegen::Lower(ctx, kernel, TileTarget(), {});
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_EQ(std::ranges::count(lowered->opts, OptKind::kTensorCore, &Opt::kind), 0);
    CheckTiles(ctx, kernel, memory, nullptr, 1e-6);
    for (const std::vector<Opt>& opts : {std::vector<Opt>{kTc},
                                         {kLanes, kTc, Rows(4), kPackColumns},
                                         {{OptKind::kVector, 2, 16}, kTc},
                                         {kTc, {OptKind::kUnroll, 2, 4}}}) {
      const auto chosen = codegen::Lower(ctx, kernel, TileTarget(), {.opts = &opts});
      ASSERT_TRUE(chosen.ok()) << chosen.status();
      for (UOp u : chosen->linear.srcs()) EXPECT_FALSE(u.Is({Op::WMMA, Op::WMMA_BLOCK}));
      CheckTiles(ctx, kernel, memory, opts, 1e-6);
    }
  }
}

// Rows that are no words in memory (transposed, or of f32 values that are rounded) are packed as
// such.
TEST(WmmaTilesTest, TheHeuristicMakesTiles) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{64, 96, 256}, {20, 50, 128}}) {
    for (const Dtype d : {Dtype::BF16, Dtype::F16, Dtype::I8}) {
      for (const bool ta : {false, true}) {
        for (const bool tb : {false, true}) {
          // Of few products the lanes of words lie along the sum.
          if ((tb && m == 20) || (d != Dtype::BF16 && m != 20)) continue;
          SCOPED_TRACE(testing::Message() << m << " " << Name(d) << " " << ta << " " << tb);
          const Dtype sum = d == Dtype::I8 ? Dtype::I32 : Dtype::F32;
          UOpContext ctx;
          const UOp kernel = tests::WideningMatmulKernel(ctx, m, n, k, ta, tb, d, d, sum);
          const auto blocks = BlocksOf(ctx, kernel, nullptr);
          ASSERT_EQ(blocks.size(), 1U);
          EXPECT_EQ(blocks[0].rows, m == 20 ? 16 : 32);
          EXPECT_EQ(blocks[0].columns, 32);
          const Memory memory = {SampleBuffer(sum, m * n, 1, true),
                                 SampleBuffer(d, m * k, 2, d != Dtype::I8),
                                 SampleBuffer(d, k * n, 3, d != Dtype::I8)};
          CheckTiles(ctx, kernel, memory, nullptr, d == Dtype::I8 ? 0 : 1e-6);
        }
      }
    }
  }
  UOpContext ctx;
  EXPECT_TRUE(BlocksOf(ctx,
                       tests::WideningMatmulKernel(ctx, 8, 128, 256, false, false, Dtype::BF16,
                                                   Dtype::BF16, Dtype::F32),
                       nullptr)
                  .empty());
}

// out[i, j] = the sum over l of a[l, i] b[l, j] where a lies in memory as words [l / 2, i], and as
// words [i, l / 2]. Words of rows that do not follow each other are packed.
TEST_P(PairsTest, RowsOfWords) {
  for (const bool contiguous : {false, true}) {
    UOpContext ctx;
    const int64_t m = 48, n = 64, k = 128;
    KernelBuilder build(ctx);
    const UOp words = build.Buffer(1, Dtype::U32, m * k / 2), b = build.Buffer(2, d_, k * n);
    const UOp i = build.Loop(m), j = build.Loop(n), l = build.Reduced(k);
    const UOp pair = ir::Alu(ctx, Op::FLOORDIV, {l, ctx.Idx(2)}),
              at = ir::Alu(ctx, Op::FLOORMOD, {l, ctx.Idx(2)});
    const UOp word =
        build.Load(words, contiguous ? build.At(i, k / 2, pair) : build.At(pair, m, i));
    const UOp shift = ir::Mul(ctx, ir::Cast(ctx, at, Dtype::U32), ctx.Int(Dtype::U32, 16));
    const UOp a =
        ir::Bitcast(ctx, ir::Cast(ctx, ir::Alu(ctx, Op::SHR, {word, shift}), Dtype::U16), d_);
    const UOp product = ir::Mul(ctx, ir::Cast(ctx, a, Dtype::F32),
                                ir::Cast(ctx, build.Load(b, build.At(l, n, j)), Dtype::F32));
    const UOp sum = ir::ReduceRanges(ctx, Op::ADD, product, std::array<UOp, 1>{l});
    const UOp kernel = build.Kernel(
        {build.StoreLoops(build.Buffer(0, Dtype::F32, m * n), build.At(i, n, j), sum, {i, j})});
    const auto lowered = codegen::Lower(ctx, kernel, TileTarget(), {});
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    const auto packs = std::ranges::count(lowered->opts, OptKind::kPack, &Opt::kind);
    EXPECT_EQ(packs, contiguous ? 1 : 2);
    EXPECT_EQ(BlocksOf(ctx, kernel, nullptr).size(), 1U) << contiguous;
    const Memory memory = {SampleBuffer(Dtype::F32, m * n, 1, true),
                           SampleBuffer(d_, m * k, 2, true), SampleBuffer(d_, k * n, 3, true)};
    CheckTiles(ctx, kernel, memory, nullptr, 1e-6);
  }
}

// A kernel that stores to the rows it reads cannot read them by tiles. Then the opts are those for
// vectors: a grid of 16 rows and two vectors would not fit in the registers.
TEST_P(PairsTest, WithoutTilesTheOptsAreThoseOfVectors) {
  UOpContext ctx;
  const int64_t m = 64, n = 64, k = 128;
  KernelBuilder build(ctx);
  const UOp a = build.Buffer(0, d_, m * k), b = build.Buffer(1, d_, k * n);
  const UOp i = build.Loop(m), j = build.Loop(n), l = build.Reduced(k);
  const UOp product = ir::Mul(ctx, ir::Cast(ctx, build.Load(a, build.At(i, k, l)), Dtype::F32),
                              ir::Cast(ctx, build.Load(b, build.At(l, n, j)), Dtype::F32));
  const UOp sum = ir::ReduceRanges(ctx, Op::ADD, product, std::array<UOp, 1>{l});
  const UOp kernel =
      build.Kernel({build.StoreLoops(a, build.At(i, k, j), ir::Cast(ctx, sum, d_), {i, j})});
  const auto lowered = codegen::Lower(ctx, kernel, TileTarget(), {});
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  for (const Opt& o : lowered->opts) EXPECT_LT(o.amount, o.kind == OptKind::kUpcast ? 16 : 99);
  EXPECT_EQ(std::ranges::count(lowered->opts, OptKind::kTensorCore, &Opt::kind),
            d_ == Dtype::BF16 ? 1 : 0);
}

TEST_P(PairsTest, RowsThatAreRounded) {
  UOpContext ctx;
  const int64_t m = 64, n = 64, k = 128;
  KernelBuilder build(ctx);
  const UOp i = build.Loop(m), j = build.Loop(n), l = build.Reduced(k);
  const auto rounded = [&](UOp x) { return ir::Cast(ctx, ir::Cast(ctx, x, d_), Dtype::F32); };
  const UOp x = rounded(build.Load(build.Buffer(1, Dtype::F32, m * k), build.At(i, k, l))),
            y = rounded(build.Load(build.Buffer(2, Dtype::F32, k * n), build.At(l, n, j)));
  const UOp sum = ir::ReduceRanges(ctx, Op::ADD, ir::Mul(ctx, x, y), std::array<UOp, 1>{l});
  const UOp kernel = build.Kernel(
      {build.StoreLoops(build.Buffer(0, Dtype::F32, m * n), build.At(i, n, j), sum, {i, j})});
  EXPECT_EQ(BlocksOf(ctx, kernel, nullptr).size(), 1U);
  const Memory memory = {SampleBuffer(Dtype::F32, m * n, 1, true),
                         SampleBuffer(Dtype::F32, m * k, 2, true),
                         SampleBuffer(Dtype::F32, k * n, 3, true)};
  CheckTiles(ctx, kernel, memory, nullptr, 1e-6);
}

// A product of f32 whose operands the client allows to round to f16, and to either of both.
TEST(WmmaTilesTest, AllowedProductsUseTiles) {
  using enum DtypeNumber;
  for (const auto& [allowed, used] :
       {std::pair<DtypeNumberSet, Dtype>{{F16}, Dtype::F16}, {{BF16, F16}, Dtype::BF16}}) {
    UOpContext ctx;
    test::GraphBuilder g(ctx);
    g.Output(g.MatMul(g.Input({256, 256}), g.Input({256, 256})));
    schedule::Options options;
    options.limits = schedule::KernelLimits::Of(TileTarget());
    options.allowed_products = allowed;
    const auto schedule = schedule::MakeSchedule(ctx, g.Finish(), options);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    std::vector<int64_t> elements;
    for (const schedule::Item& item : schedule->items) {
      UOpContext kernel;
      const auto sink = ir::Decode(kernel, item.graph, ir::Level::kKernel);
      ASSERT_TRUE(sink.ok()) << sink.status();
      for (const ir::WmmaBlock& b : BlocksOf(kernel, *sink, nullptr)) elements.push_back(b.a);
    }
    EXPECT_EQ(elements, std::vector<int64_t>{static_cast<int64_t>(NumberOf(used))});
  }
}

}  // namespace
}  // namespace uopd
