// SPDX-License-Identifier: MIT
// TC: sums of products of small elements by matrix instructions, against the interpreter.
#include <gmock/gmock.h>

#include "core/codegen/opts/opt_plan.h"
#include "core/ir/analysis/eval.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"
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
using tests::CheckKernel;
using tests::CheckOptions;
using tests::CompiledText;
using tests::KernelBuilder;
using tests::Memory;
using tests::SampleBuffer;

Target DotTarget(CompiledText::Language language = CompiledText::kC) {
  Target out = tests::WideTarget();
  out.matrix_instructions = tests::DotInstructions(language);
  return out;
}

int CountOps(const UOpContext& ctx, UOp sink, Op op) {
  int n = 0;
  for (UOp u : ir::Toposort(ctx, sink)) n += u.Is(op);
  return n;
}

struct Kind {
  Dtype a, b, sum;
};
constexpr Kind kKinds[] = {{Dtype::BF16, Dtype::BF16, Dtype::F32},
                           {Dtype::I8, Dtype::I8, Dtype::I32},
                           {Dtype::U8, Dtype::I8, Dtype::I32},
                           {Dtype::I8, Dtype::U8, Dtype::I32},
                           {Dtype::U8, Dtype::U8, Dtype::I32}};

class TensorCoreTest : public testing::TestWithParam<int> {
 protected:
  bool ta_ = (GetParam() & 1) != 0, tb_ = (GetParam() & 2) != 0;
};

// Bytes at their limits: -128 and 127, 0 and 255. k is no multiple of a word's elements.
TEST_P(TensorCoreTest, ProductsOfMatrices) {
  for (const Kind& kind : kKinds) {
    const bool exact = kind.sum == Dtype::I32;
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{13, 37, 22}, {4, 20, 1}}) {
      UOpContext ctx;
      const UOp kernel =
          tests::WideningMatmulKernel(ctx, m, n, k, ta_, tb_, kind.a, kind.b, kind.sum);
      const Memory memory = {SampleBuffer(kind.sum, m * n, 1, true),
                             SampleBuffer(kind.a, m * k, 2, !exact),
                             SampleBuffer(kind.b, k * n, 3, !exact)};
      const Opt tc{OptKind::kTensorCore, 2, 0};
      for (const std::vector<Opt>& opts :
           {std::vector<Opt>{tc},
            {{OptKind::kVector, 1, 16}, tc, {OptKind::kUpcast, 0, 3}, {OptKind::kPack, 1, 0}},
            {{OptKind::kVector, 0, 16}, tc, {OptKind::kPack, 0, 0}, {OptKind::kPack, 1, 0}},
            {{OptKind::kVector, 2, 16}, tc}}) {
        for (const auto language : {CompiledText::kC, CompiledText::kLlvmIr}) {
          CheckOptions check;
          check.target = DotTarget(language), check.options.opts = &opts;
          check.language = language, check.tolerance = exact ? 0 : 1e-6;
          EXPECT_EQ(CheckKernel(ctx, kernel, memory, check).substr(0, 300), "")
              << Name(kind.a) << " " << Name(kind.b) << " " << m << " " << opts.size() << " "
              << Text(opts.back());
        }
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Transposed, TensorCoreTest, testing::Range(0, 4));

TEST(TensorCoreOptTest, ProductsWithWordsInMemory) {
  for (const Kind& kind : kKinds) {
    const bool exact = kind.sum == Dtype::I32;
    const int64_t m = 13, n = 37, k = 24;
    UOpContext ctx;
    const UOp kernel = tests::WordsMatmulKernel(ctx, m, n, k, kind.a, kind.b, kind.sum);
    const Memory memory = {SampleBuffer(kind.sum, m * n, 1, true),
                           SampleBuffer(kind.a, m * k, 2, !exact),
                           SampleBuffer(kind.b, k * n, 3, !exact)};
    const Opt tc{OptKind::kTensorCore, 2, 0};
    for (const std::vector<Opt>& opts :
         {std::vector<Opt>{tc},
          {{OptKind::kVector, 1, 16}, tc, {OptKind::kUpcast, 0, 3}},
          {{OptKind::kVector, 1, 16}, tc, {OptKind::kPack, 0, 0}, {OptKind::kPack, 1, 0}},
          {{OptKind::kVector, 1, 16}, {OptKind::kUnroll, 2, 5}, tc},
          {{OptKind::kVector, 2, 16}, tc}}) {
      for (const auto language : {CompiledText::kC, CompiledText::kLlvmIr}) {
        CheckOptions check;
        check.target = DotTarget(language), check.options.opts = &opts;
        check.language = language, check.tolerance = exact ? 0 : 1e-6;
        EXPECT_EQ(CheckKernel(ctx, kernel, memory, check).substr(0, 300), "")
            << Name(kind.a) << " " << Name(kind.b) << " " << Text(opts.back());
      }
    }
  }
}

// One row with a NaN, one with an infinity, one with denormals beside numbers of usual size.
TEST(TensorCoreOptTest, KeepsNanAndInfinity) {
  UOpContext ctx;
  const int64_t m = 5, n = 16, k = 12;
  const UOp kernel =
      tests::WideningMatmulKernel(ctx, m, n, k, false, false, Dtype::BF16, Dtype::BF16, Dtype::F32);
  Memory memory = {
      SampleBuffer(Dtype::F32, m * n, 1, true), SampleBuffer(Dtype::BF16, m * k, 2, true), {}};
  for (int64_t i = 0; i < k * n; ++i) {
    memory[2].resize(memory[2].size() + 2);
    tests::StoreScalar(ir::Scalar::Float(Dtype::BF16, 1 + static_cast<double>(i % 7)),
                       &memory[2][static_cast<size_t>(2 * i)]);
  }
  const double specials[] = {NAN, INFINITY, -INFINITY, 1e-40, -3e-39};
  for (int64_t row = 0; row < m; ++row) {
    tests::StoreScalar(ir::Scalar::Float(Dtype::BF16, specials[row]),
                       &memory[1][static_cast<size_t>(2 * (row * k + row))]);
  }
  const std::vector<Opt> opts = {
      {OptKind::kVector, 1, 16}, {OptKind::kTensorCore, 2, 0}, {OptKind::kPack, 1, 0}};
  for (const auto language : {CompiledText::kC, CompiledText::kLlvmIr}) {
    CheckOptions check;
    check.target = DotTarget(language), check.options.opts = &opts;
    check.language = language, check.tolerance = 1e-6;
    EXPECT_EQ(CheckKernel(ctx, kernel, memory, check).substr(0, 300), "");
  }
}

// The kernel after TC means the same, word by word, to the interpreter.
TEST(TensorCoreOptTest, TheInterpreterKnowsWords) {
  for (const Kind& kind : kKinds) {
    UOpContext ctx;
    const int64_t m = 3, n = 5, k = 7;
    const UOp kernel =
        tests::WideningMatmulKernel(ctx, m, n, k, false, false, kind.a, kind.b, kind.sum);
    const bool exact = kind.sum == Dtype::I32;
    Memory want = {SampleBuffer(kind.sum, m * n, 1, true), SampleBuffer(kind.a, m * k, 2, !exact),
                   SampleBuffer(kind.b, k * n, 3, !exact)};
    Memory got = want;
    const auto applied = codegen::ApplyOpts(ctx, kernel, DotTarget(),
                                            std::vector<Opt>{{OptKind::kTensorCore, 2, 0}});
    ASSERT_TRUE(applied.ok()) << applied.status();
    EXPECT_GT(CountOps(ctx, *applied, Op::WMMA), 0);
    tests::Interpret(ctx, kernel, want, {});
    tests::Interpret(ctx, *applied, got, {});
    // Products of a few small bf16 numbers are exact in f32.
    EXPECT_EQ(want[0], got[0]) << Name(kind.a) << " " << Name(kind.b);
  }
}

// The sum that corrects flipped signs belongs to the packed operand: no loop over rows repeats it.
TEST(TensorCoreOptTest, TheCorrectionOfSignsStandsOutsideOfTheRows) {
  UOpContext ctx;
  const UOp kernel =
      tests::WideningMatmulKernel(ctx, 64, 64, 64, false, false, Dtype::I8, Dtype::I8, Dtype::I32);
  const std::vector<Opt> opts = {
      {OptKind::kVector, 1, 16}, {OptKind::kTensorCore, 2, 0}, {OptKind::kPack, 1, 0}};
  codegen::Options options;
  options.opts = &opts;
  const auto lowered = codegen::Lower(ctx, kernel, DotTarget(), options);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  std::vector<int> depths;  // panels { corrections { } rows { sum { } } }
  int depth = 0;
  for (UOp u : lowered->linear.srcs()) {
    if (u.Is(Op::RANGE)) ++depth;
    if (u.Is(Op::END)) --depth;
    if (u.Is(Op::WMMA)) depths.push_back(depth);
  }
  EXPECT_EQ(depths, (std::vector<int>{2, 3}));
}

TEST(TensorCoreOptTest, TheHeuristicTilesAndPacks) {
  for (const Kind& kind : kKinds) {
    UOpContext ctx;
    const UOp kernel =
        tests::WideningMatmulKernel(ctx, 96, 128, 256, false, false, kind.a, kind.b, kind.sum);
    const auto lowered = codegen::Lower(ctx, kernel, DotTarget(), {});
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    const auto has = [&](OptKind k) {
      return std::any_of(lowered->opts.begin(), lowered->opts.end(),
                         [&](const Opt& o) { return o.kind == k; });
    };
    EXPECT_TRUE(has(OptKind::kTensorCore) && has(OptKind::kPack)) << Name(kind.a);
    EXPECT_GE(CountOps(ctx, lowered->linear, Op::WMMA), 16) << "the tile of " << Name(kind.a);
    // One row alone does not use its words often enough.
    const UOp row =
        tests::WideningMatmulKernel(ctx, 1, 128, 256, false, false, kind.a, kind.b, kind.sum);
    const auto alone = codegen::Lower(ctx, row, DotTarget(), {});
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_EQ(CountOps(ctx, alone->linear, Op::WMMA), 0);
    // Both operands contiguous along the sum: the lanes of words lie along it.
    const UOp nt =
        tests::WideningMatmulKernel(ctx, 48, 48, 256, false, true, kind.a, kind.b, kind.sum);
    const auto along = codegen::Lower(ctx, nt, DotTarget(), {});
    ASSERT_TRUE(along.ok()) << along.status();
    EXPECT_GE(CountOps(ctx, along->linear, Op::WMMA), 8);
  }
}

// Words in memory are loaded as they are: no element is taken out, and nothing is packed.
TEST(TensorCoreOptTest, LoadsWordsThatLieInMemory) {
  for (const Kind& kind : kKinds) {
    UOpContext ctx;
    const UOp kernel = tests::WordsMatmulKernel(ctx, 96, 128, 256, kind.a, kind.b, kind.sum);
    const auto lowered = codegen::Lower(ctx, kernel, DotTarget(), {});
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_TRUE(std::none_of(lowered->opts.begin(), lowered->opts.end(), [](const Opt& o) {
      return o.kind == OptKind::kPack;
    })) << Name(kind.b);
    EXPECT_GE(CountOps(ctx, lowered->linear, Op::WMMA), 16) << Name(kind.b);
    EXPECT_EQ(CountOps(ctx, lowered->linear, Op::SHR), 0) << Name(kind.b);
  }
}

// C (m x n) = A (m x 32 blocks) B, of signed bytes and of numbers with 5 bits. A word has four
// neighbours along k of one column: the low bits of all eight words of a block of 32 lie in four
// words in memory, the high bits in one more. The sums of blocks are scaled and added up.
UOp NumbersMatmulKernel(UOpContext& ctx, int64_t m, int64_t n, int64_t blocks) {
  KernelBuilder build(ctx);
  const UOp c = build.Buffer(0, Dtype::F32, m * n), x = build.Buffer(1, Dtype::I8, m * blocks * 32),
            low = build.Buffer(2, Dtype::U32, n * blocks * 4),
            high = build.Buffer(3, Dtype::U32, n * blocks),
            scale = build.Buffer(4, Dtype::F32, n * blocks);
  const UOp i = build.Loop(m), j = build.Loop(n), block = build.Reduced(blocks),
            half = build.Reduced(2), word = build.Reduced(4), byte = build.Reduced(4);
  const auto u32 = [&](uint32_t v) { return ctx.Int(Dtype::U32, v); };
  const auto shift = [&](Op op, UOp v, UOp by, int64_t times) {
    return ir::Alu(ctx, op, {v, ir::Mul(ctx, ir::Cast(ctx, by, Dtype::U32), u32(times))});
  };
  const UOp four = build.At(block, 4, word), t = build.At(half, 4, word);
  const UOp nibbles =
      ir::Alu(ctx, Op::AND,
              {shift(Op::SHR, build.Load(low, build.At(four, n, j)), half, 4), u32(0x0f0f0f0f)});
  const UOp fifth =
      ir::Alu(ctx, Op::AND,
              {shift(Op::SHR, build.Load(high, build.At(block, n, j)), t, 1), u32(0x01010101)});
  const UOp all = ir::Alu(ctx, Op::OR, {nibbles, ir::Alu(ctx, Op::SHL, {fifth, u32(4)})});
  const UOp number = ir::Cast(ctx, shift(Op::SHR, all, byte, 8), Dtype::U8);
  const UOp at = build.At(block, 32, build.At(t, 4, byte));
  const UOp other = build.Load(x, build.At(i, blocks * 32, at));
  const UOp sum = ir::ReduceRanges(
      ctx, Op::ADD,
      ir::Mul(ctx, ir::Cast(ctx, other, Dtype::I32), ir::Cast(ctx, number, Dtype::I32)),
      std::array{half, word, byte});
  const UOp scaled =
      ir::Mul(ctx, ir::Cast(ctx, sum, Dtype::F32), build.Load(scale, build.At(block, n, j)));
  return build.Kernel({build.StoreLoops(
      c, build.At(i, n, j), ir::ReduceRanges(ctx, Op::ADD, scaled, std::array{block}), {i, j})});
}

TEST(TensorCoreOptTest, ProductsWithBitsOfWords) {
  const int64_t m = 5, n = 37, blocks = 3;
  UOpContext ctx;
  const UOp kernel = NumbersMatmulKernel(ctx, m, n, blocks);
  const Memory memory = {SampleBuffer(Dtype::F32, m * n, 1, true),
                         SampleBuffer(Dtype::I8, m * blocks * 32, 2, false),
                         SampleBuffer(Dtype::U32, n * blocks * 4, 3, false),
                         SampleBuffer(Dtype::U32, n * blocks, 4, false),
                         SampleBuffer(Dtype::F32, n * blocks, 5, true)};
  const Opt tc{OptKind::kTensorCore, 5, 0};
  for (const std::vector<Opt>& opts :
       {std::vector<Opt>{tc},
        {{OptKind::kVector, 1, 16}, tc, {OptKind::kUpcast, 0, 3}},
        {{OptKind::kVector, 1, 16}, tc, {OptKind::kUnroll, 4, 0}, {OptKind::kUnroll, 3, 0}},
        {{OptKind::kVector, 1, 16}, tc, {OptKind::kUnroll, 4, 3}}}) {
    for (const auto language : {CompiledText::kC, CompiledText::kLlvmIr}) {
      CheckOptions check;
      check.target = DotTarget(language), check.options.opts = &opts;
      check.language = language, check.tolerance = 1e-6;
      EXPECT_EQ(CheckKernel(ctx, kernel, memory, check).substr(0, 300), "") << Text(opts.back());
    }
  }
}

// Nothing takes single numbers out of the words, also of one row.
TEST(TensorCoreOptTest, TheHeuristicMultipliesBitsOfWords) {
  for (const int64_t m : {1, 32}) {
    UOpContext ctx;
    const auto lowered = codegen::Lower(ctx, NumbersMatmulKernel(ctx, m, 512, 32), DotTarget(), {});
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_GE(CountOps(ctx, lowered->linear, Op::WMMA), m == 1 ? 1 : 8) << m;
    for (UOp u : lowered->linear.srcs()) EXPECT_FALSE(u.Is(Op::CAST) && u.dtype() == Dtype::U8);
  }
}

// Without a fitting number of lanes the words are multiplied element by element.
TEST(TensorCoreOptTest, OtherLanesNeedNoInstruction) {
  UOpContext ctx;
  const UOp kernel = tests::WideningMatmulKernel(ctx, 8, 32, 16, false, false, Dtype::BF16,
                                                 Dtype::BF16, Dtype::F32);
  for (const int64_t lanes : {4, 16}) {
    const std::vector<Opt> opts = {{OptKind::kVector, 1, lanes}, {OptKind::kTensorCore, 2, 0}};
    codegen::Options options;
    options.opts = &opts;
    const auto lowered = codegen::Lower(ctx, kernel, DotTarget(), options);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_EQ(CountOps(ctx, lowered->linear, Op::WMMA), lanes == 16 ? 1 : 0);
  }
}

TEST(TensorCoreOptTest, RefusesOtherSums) {
  UOpContext ctx;
  const auto why = [&](UOp kernel, Opt opt, const Target& target) {
    codegen::OptPlan plan(ctx, kernel, target);
    const std::string out = StatusText(plan.Add(opt));
    EXPECT_TRUE(plan.opts().empty());
    return out;
  };
  const auto matmul = [&](Dtype a, Dtype b, Dtype sum) {
    return tests::WideningMatmulKernel(ctx, 8, 16, 8, false, false, a, b, sum);
  };
  const Opt tc{OptKind::kTensorCore, 2, 0};
  const Target target = DotTarget();
  EXPECT_THAT(why(matmul(Dtype::F32, Dtype::F32, Dtype::F32), tc, target), HasSubstr("0 matrix"));
  EXPECT_THAT(why(matmul(Dtype::F16, Dtype::F16, Dtype::F32), tc, target), HasSubstr("0 matrix"));
  EXPECT_THAT(why(matmul(Dtype::BF16, Dtype::BF16, Dtype::F64), tc, target), HasSubstr("0 matrix"));
  EXPECT_THAT(why(matmul(Dtype::I8, Dtype::I8, Dtype::I64), tc, target), HasSubstr("0 matrix"));
  const UOp bf16 = matmul(Dtype::BF16, Dtype::BF16, Dtype::F32);
  EXPECT_THAT(why(bf16, tc, tests::WideTarget()), HasSubstr("0 matrix"));
  EXPECT_THAT(why(bf16, {OptKind::kTensorCore, 2, 2}, target), HasSubstr("1 matrix"));
  EXPECT_THAT(why(bf16, {OptKind::kTensorCore, 0, 0}, target), HasSubstr("not reduced"));
  EXPECT_THAT(why(bf16, {OptKind::kTensorCore, 3, 0}, target), HasSubstr("has 3 axes"));
  codegen::OptPlan plan(ctx, bf16, target);
  EXPECT_TRUE(plan.Add(tc).ok());
  EXPECT_THAT(StatusText(plan.Add(tc)), HasSubstr("has a TC already"));
  EXPECT_EQ(plan.opts().size(), 1U);
  // A second reduction over the axis that is no sum of products.
  KernelBuilder b(ctx);
  const UOp i = b.Loop(8), k = b.Reduced(8);
  const UOp x = Cast(ctx, b.Load(b.Buffer(1, Dtype::BF16, 64), b.At(i, 8, k)), Dtype::F32);
  const auto sum = [&](UOp of) { return ir::ReduceRanges(ctx, Op::ADD, of, std::span(&k, 1)); };
  const UOp both = b.Kernel(
      {b.StoreLoops(b.Buffer(0, Dtype::F32, 8), i, Add(ctx, sum(Mul(ctx, x, x)), sum(x)), {i})});
  EXPECT_THAT(why(both, {OptKind::kTensorCore, 1, 0}, target), HasSubstr("0 matrix"));
}

// The meaning of WMMA, which renderers, decompositions and the interpreter share.
TEST(WmmaTest, AddsTheProductsOfElements) {
  UOpContext ctx;
  const auto wmma = [&](Dtype a, Dtype b, Dtype sum, uint32_t x, uint32_t y, ir::Scalar z) {
    const UOp none = ctx.Int(Dtype::U32, 0);
    const UOp u =
        ctx.Make(Op::WMMA, sum, {none, none},
                 ctx.Data({static_cast<int64_t>(NumberOf(a)), static_cast<int64_t>(NumberOf(b))}));
    EXPECT_TRUE(ir::VerifyNode(ctx, u, ir::Level::kLinear).ok());
    return ir::EvalWmma(
        u, std::array{ir::Scalar::Int(Dtype::U32, x), ir::Scalar::Int(Dtype::U32, y), z});
  };
  // 1.5 * 2 + -4 * 0.5 + 10
  EXPECT_EQ(wmma(Dtype::BF16, Dtype::BF16, Dtype::F32, 0xc0803fc0, 0x3f004000,
                 ir::Scalar::Float(Dtype::F32, 10))
                .f,
            11);
  EXPECT_EQ(wmma(Dtype::F16, Dtype::F16, Dtype::F32, 0xc4003e00, 0x38004000,
                 ir::Scalar::Float(Dtype::F32, 10))
                .f,
            11);
  // 255 * -128 + 1 * 2 + 0 + 3 * -1 + 5
  EXPECT_EQ(
      wmma(Dtype::U8, Dtype::I8, Dtype::I32, 0x030001ff, 0xff070280, ir::Scalar::Int(Dtype::I32, 5))
          .i,
      255 * -128 + 2 - 3 + 5);
  const UOp x = ctx.Int(Dtype::U32, 0);
  const auto refused = [&](Dtype a, Dtype b, Dtype sum) {
    const UOp u =
        ctx.Make(Op::WMMA, sum, {x, x},
                 ctx.Data({static_cast<int64_t>(NumberOf(a)), static_cast<int64_t>(NumberOf(b))}));
    return !ir::VerifyNode(ctx, u, ir::Level::kLinear).ok();
  };
  EXPECT_TRUE(refused(Dtype::BF16, Dtype::BF16, Dtype::I32));
  EXPECT_TRUE(refused(Dtype::I8, Dtype::I8, Dtype::I32));
  EXPECT_TRUE(refused(Dtype::F16, Dtype::BF16, Dtype::F32));
  EXPECT_TRUE(refused(Dtype::F16, Dtype::F16, Dtype::F16));
}

}  // namespace
}  // namespace uopd
