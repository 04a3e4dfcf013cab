// SPDX-License-Identifier: MIT
// Long sums are exact to a few roundings, whatever their loops, sizes and opts.
#include "core/codegen/passes/sum_chunks.h"

#include <cmath>
#include <cstring>
#include <random>

#include "core/codegen/opts/opt.h"
#include "gtest/gtest.h"
#include "tests/support/kernel_check.h"
#include "tests/support/lowered_run.h"

namespace uopd {
namespace {

using codegen::SumChunks;
using ir::UOp;
using ir::UOpContext;

std::optional<SumChunks> ChunksOf(std::initializer_list<int64_t> loops, int64_t terms = 1,
                                  bool of_products = false) {
  return codegen::ChunksOfSum(std::span(loops.begin(), loops.size()), terms, of_products);
}

TEST(SumChunksTest, ShortSumsHaveNone) {
  EXPECT_FALSE(ChunksOf({1023}));
  EXPECT_FALSE(ChunksOf({64, 3, 3}));
  EXPECT_FALSE(ChunksOf({32}, 16));
  EXPECT_FALSE(ChunksOf({0, 4096}));
  EXPECT_FALSE(ChunksOf({4}, 1024)) << "the terms of one iteration are more than a chunk";
}

TEST(SumChunksTest, ChunksHaveAtMost512Terms) {
  EXPECT_EQ(ChunksOf({4096}), (SumChunks{1, 512}));
  EXPECT_EQ(ChunksOf({2000}), (SumChunks{1, 500})) << "a divisor";
  EXPECT_EQ(ChunksOf({2003}), (SumChunks{1, 512})) << "there is none";
  EXPECT_EQ(ChunksOf({512, 3, 3}), (SumChunks{1, 32})) << "of the outermost loop";
  EXPECT_EQ(ChunksOf({512, 3}, 3), (SumChunks{1, 32})) << "the innermost loop is unrolled";
  EXPECT_EQ(ChunksOf({8, 32, 32}), (SumChunks{2, 16}));
  EXPECT_EQ(ChunksOf({101, 400}), (SumChunks{1, 0})) << "an iteration of the outer loop is a chunk";
  EXPECT_EQ(ChunksOf({-1}), (SumChunks{1, 512})) << "of a symbolic size";
}

TEST(SumChunksTest, OnlyLongSumsOfProductsHaveChunks) {
  EXPECT_FALSE(ChunksOf({16383}, 1, true));
  EXPECT_FALSE(ChunksOf({512, 3, 3}, 1, true));
  EXPECT_FALSE(ChunksOf({-1}, 1, true));
  EXPECT_EQ(ChunksOf({4096}, 4, true), (SumChunks{1, 128}));
}

TEST(SumChunksTest, ChunksOfVeryLongSumsAreLonger) {
  EXPECT_EQ(ChunksOf({1 << 24}), (SumChunks{1, 4096}));
}

std::vector<uint8_t> Positive(int64_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(1, 2);
  std::vector<uint8_t> out(static_cast<size_t>(n) * 4);
  for (size_t at = 0; at < out.size(); at += 4) {
    const float x = uniform(random);
    std::memcpy(&out[at], &x, 4);
  }
  return out;
}

float At(const std::vector<uint8_t>& floats, int64_t i) {
  float out = 0;
  std::memcpy(&out, &floats[static_cast<size_t>(i) * 4], 4);
  return out;
}

// The largest relative error of the products of an m x k matrix and a k x n matrix by a kernel with
// these opts.
double ErrorOfProduct(int64_t m, int64_t k, int64_t n, std::string_view opts) {
  UOpContext ctx;
  const UOp sink = tests::MatmulKernel(ctx, m, n, k, false, false);
  const Target target = tests::WideTarget();
  const std::vector<codegen::Opt> list = *codegen::ParseOpts(opts);
  codegen::Options options;
  options.opts = &list;
  const auto lowered = codegen::Lower(ctx, sink, target, options);
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  if (!lowered.ok()) return INFINITY;
  tests::Memory memory = {std::vector<uint8_t>(static_cast<size_t>(m * n) * 4), Positive(m * k, 1),
                          Positive(k * n, 2)};
  const absl::Status ran = tests::RunLowered(ctx, *lowered, target, memory, {});
  EXPECT_TRUE(ran.ok()) << ran;
  double out = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double exact = 0;
      for (int64_t s = 0; s < k; ++s)
        exact += static_cast<double>(At(memory[1], i * k + s)) * At(memory[2], s * n + j);
      out = std::max(out, std::abs(At(memory[0], i * n + j) - exact) / exact);
    }
  }
  return out;
}

// In one accumulator the largest errors of these sums are 8e-6 and more.
TEST(SumChunksTest, LongProductsAreAccurate) {
  for (const char* opts :
       {"", "VECTOR(1, 16) UPCAST(0, 4)", "VECTOR(1, 16) UNROLL(2, 4)",
        "VECTOR(1, 16) UPCAST(0, 4) UNROLL(2, 2)", "THREAD(0, 2)", "UPCAST(0, 4) UNROLL(2, 3)"}) {
    for (const int64_t k : {16384, 16387, 18432})
      EXPECT_LT(ErrorOfProduct(4, k, 16, opts), 1.2e-6) << opts << " over " << k;
  }
}

// Products of a symbolic size have chunks if the largest size is long.
TEST(SumChunksTest, SymbolicProductsAreCutByTheirLargestSize) {
  for (const int64_t largest : {1 << 13, 1 << 15}) {
    UOpContext ctx;
    tests::KernelBuilder b(ctx);
    const UOp n = ir::Variable(ctx, "n", 1, largest), i = b.Loop(2), r = b.Reduced(n);
    const UOp product =
        ir::Mul(ctx, b.Load(b.Buffer(1, ir::Dtype::F32, 2 * largest), b.At(i, largest, r)),
                b.Load(b.Buffer(2, ir::Dtype::F32, largest), r));
    const UOp sink =
        b.Kernel({b.StoreLoops(b.Buffer(0, ir::Dtype::F32, 2), i,
                               ir::ReduceRanges(ctx, ir::Op::ADD, product, std::vector{r}), {i})});
    EXPECT_EQ(codegen::LongSums(ctx, sink, tests::WideTarget()).size(), largest > 16384 ? 1u : 0u);
  }
}

// Sums of two axes, of lanes, of a symbolic size, and two sums in one loop: compiled and
// interpreted.
TEST(SumChunksTest, LoopsOfAllKindsAreCut) {
  for (const char* opts : {"", "VECTOR(1, 8)", "UNROLL(2, 0)", "UNROLL(1, 4)", "VECTOR(2, 8)",
                           "UPCAST(0, 3) UNROLL(1, 5)"}) {
    for (const bool two : {false, true}) {
      UOpContext ctx;
      tests::KernelBuilder b(ctx);
      const UOp i = b.Loop(6), r = b.Reduced(75), s = b.Reduced(16);
      const UOp x = b.Load(b.Buffer(1, ir::Dtype::F32, 7200), b.At(i, 1200, b.At(r, 16, s)));
      UOp sum = ir::ReduceRanges(ctx, ir::Op::ADD, x, std::vector{r, s});
      if (two) {
        const UOp squares =
            ir::ReduceRanges(ctx, ir::Op::ADD, ir::Mul(ctx, x, x), std::vector{r, s});
        const UOp largest = ir::ReduceRanges(ctx, ir::Op::MAX, x, std::vector{r, s});
        sum = ir::Add(ctx, ir::Add(ctx, sum, squares), largest);
      }
      const UOp sink = b.Kernel({b.StoreLoops(b.Buffer(0, ir::Dtype::F32, 6), i, sum, {i})});
      const auto list = *codegen::ParseOpts(opts);
      EXPECT_EQ(
          tests::CheckOpts(ctx, sink, {std::vector<uint8_t>(24), Positive(7200, 3)}, list, 2e-6),
          "")
          << opts << (two ? ", three reductions" : "");
    }
  }
}

TEST(SumChunksTest, TheLastChunkOfASymbolicSizeIsShorter) {
  UOpContext ctx;
  tests::KernelBuilder b(ctx);
  const UOp n = ir::Variable(ctx, "n", 1, 3000);
  const UOp i = b.Loop(2), r = b.Reduced(n);
  const UOp x = b.Load(b.Buffer(1, ir::Dtype::F32, 6000), b.At(i, 3000, r));
  const UOp sink =
      b.Kernel({b.StoreLoops(b.Buffer(0, ir::Dtype::F32, 2), i,
                             ir::ReduceRanges(ctx, ir::Op::ADD, x, std::vector{r}), {i})});
  for (const int64_t size : {1, 511, 512, 513, 2999, 3000}) {
    tests::CheckOptions check{.target = tests::WideTarget()};
    check.variables = {{"n", size}};
    check.tolerance = 2e-6;
    EXPECT_EQ(tests::CheckKernel(ctx, sink, {std::vector<uint8_t>(8), Positive(6000, 4)}, check),
              "")
        << size;
  }
}

// Some terms of an unrolled sum depend on no loop, but the size of the last chunk depends on the
// loop of chunks.
TEST(SumChunksTest, ChunksOfASymbolicSizeHaveTermsWithoutLoops) {
  for (const char* opts : {"", "UNROLL(2, 3)", "UPCAST(0, 2) UNROLL(2, 3)"}) {
    UOpContext ctx;
    tests::KernelBuilder b(ctx);
    const UOp n = ir::Variable(ctx, "n", 1, 3000);
    const UOp i = b.Loop(2), r = b.Reduced(n), s = b.Reduced(3);
    const UOp x = b.Load(b.Buffer(1, ir::Dtype::F32, 2), i);
    const UOp term = ctx.Make(ir::Op::WHERE, ir::Dtype::F32,
                              {ir::Lt(ctx, r, s), x, ctx.Float(ir::Dtype::F32, 1)});
    const UOp sink =
        b.Kernel({b.StoreLoops(b.Buffer(0, ir::Dtype::F32, 2), i,
                               ir::ReduceRanges(ctx, ir::Op::ADD, term, std::vector{r, s}), {i})});
    const std::vector<codegen::Opt> list = *codegen::ParseOpts(opts);
    for (const int64_t size : {1, 2, 513, 3000}) {
      tests::CheckOptions check{.target = tests::WideTarget()};
      check.variables = {{"n", size}};
      check.options.opts = &list;
      check.tolerance = 2e-6;
      EXPECT_EQ(tests::CheckKernel(ctx, sink, {std::vector<uint8_t>(8), Positive(2, 5)}, check), "")
          << opts << " " << size;
    }
  }
}

}  // namespace
}  // namespace uopd
