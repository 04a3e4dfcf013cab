// SPDX-License-Identifier: MIT
// Products by matrix instructions of groups of warps, which read their operands from shared memory.
#include "core/ir/group_mma.h"
#include <cmath>
#include <cstring>
#include <set>

#include "core/base/target/gpu_targets.h"
#include "core/base/target/matrix_instructions.h"
#include "core/base/text.h"
#include "core/codegen/gpu/product/shared_rows.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/ir/analysis/eval.h"
#include "core/ir/shared_array.h"
#include "core/ir/verify/spec.h"
#include "core/rules/simplify.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/bank_conflicts.h"
#include "tests/support/kernel_check.h"
#include "tests/support/lowered_run.h"

namespace uopd {
namespace {

using codegen::Opt;
using codegen::OptKind;
using codegen::SharedRows;
using ir::Dtype;
using ir::GroupMma;
using ir::Op;
using ir::SharedMatrix;
using ir::UOp;
using ir::UOpContext;
using ::testing::HasSubstr;

Dtype DtypeOf(DtypeNumber n) { return *ir::DtypeByWire(static_cast<uint64_t>(n)); }

MatrixInstruction GroupInstruction(std::string_view name) {
  for (const MatrixInstruction& i : WarpgroupMatrixInstructions()) {
    if (i.name == name) return i;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

Target GroupTarget(const MatrixInstruction& instruction) {
  Target out = tests::BlockTarget(true);
  out.matrix_instructions = {instruction};
  out.shared_bytes = 227 << 10;
  return out;
}

struct GroupProduct {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
};

double ElementOf(Dtype d, const std::vector<uint8_t>& bytes, int64_t i) {
  uint64_t raw = 0;
  std::memcpy(&raw, &bytes[static_cast<size_t>(i * ir::ByteSize(d))],
              static_cast<size_t>(ir::ByteSize(d)));
  return ir::IsFloat(d) ? ir::DecodeFloat(d, raw)
                        : static_cast<double>(ir::WrapTo(d, static_cast<ir::Int128>(raw)));
}

// Runs the product under the opts, or the heuristic's if there are none, and compares it with sums
// in f64. What is wrong, or nothing.
std::string Checked(const MatrixInstruction& i, const GroupProduct& p,
                    const std::vector<Opt>* maybe_opts, const Target& target) {
  UOpContext ctx;
  const Dtype a = DtypeOf(i.a), b = DtypeOf(i.b), sum = DtypeOf(i.sum);
  const UOp kernel =
      tests::WideningMatmulKernel(ctx, p.m, p.n, p.k, p.transpose_a, p.transpose_b, a, b, sum);
  codegen::Options options;
  options.opts = maybe_opts;
  const auto lowered = codegen::Lower(ctx, kernel, target, options);
  if (!lowered.ok()) return Cat("lower: ", StatusText(lowered.status()));
  tests::Memory memory = {tests::SampleBuffer(sum, p.m * p.n, 1, true),
                          tests::SampleBuffer(a, p.m * p.k, 2, true),
                          tests::SampleBuffer(b, p.k * p.n, 3, true)};
  const absl::Status run = tests::RunLowered(ctx, *lowered, target, memory, {});
  if (!run.ok()) return Cat("run: ", StatusText(run));
  const auto at = [](int64_t row, int64_t column, int64_t rows, int64_t columns, bool transposed) {
    return transposed ? column * rows + row : row * columns + column;
  };
  for (int64_t r = 0; r < p.m; ++r) {
    for (int64_t c = 0; c < p.n; ++c) {
      double want = 0, size = 0;
      for (int64_t k = 0; k < p.k; ++k) {
        const double x = ElementOf(a, memory[1], at(r, k, p.m, p.k, p.transpose_a)) *
                         ElementOf(b, memory[2], at(k, c, p.k, p.n, p.transpose_b));
        want += x;
        size += std::abs(x);
      }
      const double got = ElementOf(sum, memory[0], r * p.n + c);
      if (!(std::abs(got - want) <= (ir::IsFloat(sum) ? 1e-6 * size : 0)))
        return Cat("result ", r, ", ", c, " is ", got, ", not ", want);
    }
  }
  return "";
}

std::string Checked(const MatrixInstruction& i, const GroupProduct& p,
                    const std::vector<Opt>& opts) {
  return Checked(i, p, &opts, GroupTarget(i));
}

absl::StatusOr<UOp> LinesOf(UOpContext& ctx, const MatrixInstruction& i, const GroupProduct& p,
                            const std::vector<Opt>& opts) {
  const UOp kernel = tests::WideningMatmulKernel(ctx, p.m, p.n, p.k, p.transpose_a, p.transpose_b,
                                                 DtypeOf(i.a), DtypeOf(i.b), DtypeOf(i.sum));
  codegen::Options options;
  options.opts = &opts;
  UOPD_ASSIGN(const codegen::LoweredKernel lowered,
              codegen::Lower(ctx, kernel, GroupTarget(i), options));
  return lowered.linear;
}

int64_t CountOf(UOp linear, Op op) {
  return std::ranges::count_if(linear.srcs(), [&](UOp u) { return u.Is(op); });
}

// The places that the PTX ISA gives in formulas for the sum of wgmma.
TEST(GroupMmaTest, ResultsLieWhereThePtxIsaSays) {
  for (const MatrixInstruction& i : WarpgroupMatrixInstructions()) {
    EXPECT_TRUE(i.in_shared());
    ASSERT_EQ(i.sum_place.lanes(), 128);
    ASSERT_EQ(i.sum_place.elements(), i.m * i.n / 128);
    for (int64_t thread = 0; thread < 128; ++thread) {
      const int64_t warp = thread / 32, lane = thread % 32;
      for (int64_t e = 0; e < i.sum_place.elements(); ++e) {
        EXPECT_EQ(i.sum_place.Place('r', thread, e), 16 * warp + lane / 4 + 8 * (e / 2 % 2));
        EXPECT_EQ(i.sum_place.Place('c', thread, e), e / 4 * 8 + lane % 4 * 2 + e % 2);
      }
    }
  }
}

TEST(SwizzledRowsTest, PiecesOfEightRowsTakeAllBanks) {
  for (const int64_t span : SharedRows::kSpanBytes) {
    for (const int64_t spans : {1, 3}) {
      const int64_t words = span / 4 * spans, count = 64;
      const SharedRows rows = SharedRows::Swizzled(count, words, span);
      EXPECT_EQ(rows.size(), count * words);
      std::set<int64_t> seen;
      for (int64_t first_row = 0; first_row < count; first_row += 8) {
        for (int64_t first = 0; first < words; first += 4) {
          std::vector<int64_t> access;
          for (int64_t lane = 0; lane < 32; ++lane)
            access.push_back(rows.At(first_row + lane / 4, first + lane % 4));
          EXPECT_EQ(codegen::WordsOfOneBank(access), 1) << span;
          for (int64_t row = 0; row < 8; ++row) {
            EXPECT_EQ(access[static_cast<size_t>(row * 4)] % 4, 0);  // pieces stay whole
            EXPECT_EQ(access[static_cast<size_t>(row * 4 + 3)],
                      access[static_cast<size_t>(row * 4)] + 3);
          }
          seen.insert(access.begin(), access.end());
        }
      }
      EXPECT_EQ(static_cast<int64_t>(seen.size()), count * words);
      EXPECT_LT(*seen.rbegin(), rows.size());
      UOpContext ctx;
      for (const int64_t row : {0, 3, 13, 63}) {
        for (int64_t word = 0; word < words; word += 5)
          EXPECT_TRUE(rules::Simplify(ctx, rows.Index(ctx, ctx.Idx(row), ctx.Idx(word)))
                          .IsConstInt(rows.At(row, word)));
      }
    }
  }
  EXPECT_EQ(SharedRows::WidestSpan(256), 128);
  EXPECT_EQ(SharedRows::WidestSpan(96), 32);
  EXPECT_EQ(SharedRows::WidestSpan(16), 0);
}

// What an instruction reads from a start on is what lies there.
TEST(SwizzledRowsTest, InstructionsFindTheElements) {
  for (const int64_t span : SharedRows::kSpanBytes) {
    for (const bool along_sum : {true, false}) {
      constexpr int64_t kRows = 64, kElement = 2;
      const SharedRows rows = SharedRows::Swizzled(kRows, span / 4 * 2, span);
      const SharedMatrix matrix = rows.Matrix(along_sum);
      EXPECT_TRUE(matrix.IsValid());
      UOpContext ctx;
      for (const int64_t first_row : {0, 16, 48}) {
        for (const int64_t first_word : {int64_t{0}, span / 4}) {
          const UOp start =
              rules::Simplify(ctx, rows.Start(ctx, ctx.Idx(first_row), ctx.Idx(first_word)));
          ASSERT_TRUE(start.Is(Op::CONST));
          for (int64_t row = 0; row < 16; ++row) {
            for (int64_t element = 0; element < span / kElement; ++element) {
              const int64_t byte = along_sum ? matrix.ByteOf(row, element, kElement)
                                             : matrix.ByteOf(element, row, kElement);
              const int64_t word = first_word + element / 2;
              EXPECT_EQ(matrix.Swizzled(start.const_int() * 4 + byte),
                        rows.At(first_row + row, word) * 4 + element % 2 * 2);
            }
          }
        }
      }
    }
  }
}

TEST(GroupMmaTest, EveryInstructionMultiplies) {
  for (const MatrixInstruction& i : WarpgroupMatrixInstructions()) {
    const bool halves = ir::Bits(DtypeOf(i.a)) == 16;
    for (const bool transposed : {false, true}) {
      if (i.n > 64 && transposed != halves) continue;  // the large ones once
      const std::vector<Opt> opts = {{OptKind::kTensorCore, 2, 0}, {OptKind::kUnroll, 2, 2}};
      EXPECT_EQ(Checked(i, {70, i.n + 6, 80, transposed, transposed}, opts), "") << i.name;
    }
  }
}

// Tiles and groups along both axes, pieces of several lengths, with and without BLOCK, sizes that
// are multiples of nothing, sums of one instruction.
TEST(GroupMmaTest, TilesOfManyShapesMultiply) {
  const MatrixInstruction i = GroupInstruction("wgmma_bf16_n32");
  const Opt tile{OptKind::kTensorCore, 2, 0};
  const std::vector<std::vector<Opt>> all = {
      {tile},
      {tile, {OptKind::kUpcast, 0, 2}, {OptKind::kLocal, 1, 2}},
      {tile, {OptKind::kUpcast, 1, 2}, {OptKind::kLocal, 0, 2}, {OptKind::kBlock, 2, 2}},
      {tile, {OptKind::kUnroll, 2, 4}, {OptKind::kBlock, 2, 1}},
      {tile, {OptKind::kUnroll, 2, 2}, {OptKind::kBlock, 2, 3}}};
  for (const std::vector<Opt>& opts : all) {
    for (const GroupProduct& p : {GroupProduct{130, 70, 96, false, false},
                                  {67, 45, 93, true, true},
                                  {72, 40, 200, true, false}})
      EXPECT_EQ(Checked(i, p, opts), "")
          << Text(opts.back()) << " of " << p.m << "x" << p.n << "x" << p.k;
  }
}

// One step of the sum, so no loop: the products have accumulators of their own.
TEST(GroupMmaTest, SumsOfOneStepMultiply) {
  const MatrixInstruction i = GroupInstruction("wgmma_f16_n32");
  const Opt tile{OptKind::kTensorCore, 2, 0};
  EXPECT_EQ(Checked(i, {64, 32, 16, false, true}, {tile}), "");
  EXPECT_EQ(Checked(i, {70, 37, 9, true, false}, {tile}), "");
  EXPECT_EQ(Checked(i, {70, 37, 9, true, false}, {tile, {OptKind::kUpcast, 0, 2}}), "");
  EXPECT_EQ(Checked(i, {70, 37, 45, true, false}, {tile, {OptKind::kUnroll, 2, 3}}), "");
}

// Large products get the instruction without tuning, small ones an instruction of one warp.
TEST(GroupMmaTest, TheHeuristicChoosesTheInstruction) {
  const Target target = *GpuTarget("sm_90a");
  const auto chosen = [&](int64_t m, int64_t n, int64_t k, Dtype d, bool transposed) {
    UOpContext ctx;
    const UOp kernel =
        tests::WideningMatmulKernel(ctx, m, n, k, false, transposed, d, d, Dtype::F32);
    const auto lowered = codegen::Lower(ctx, kernel, target, {});
    EXPECT_TRUE(lowered.ok()) << lowered.status();
    if (!lowered.ok()) return std::string();
    EXPECT_LE(lowered->launch.shared_bytes, target.shared_bytes);
    for (UOp u : lowered->linear.srcs()) {
      if (u.Is(Op::GROUP_MMA)) return Cat("n", GroupMma::Of(u).n);
      if (u.Is(Op::MMA)) return std::string("warp");
    }
    return std::string("none");
  };
  for (const bool transposed : {false, true}) {
    EXPECT_EQ(chosen(4096, 4096, 4096, Dtype::BF16, transposed), "n256");
    EXPECT_EQ(chosen(8192, 1024, 256, Dtype::F16, transposed), "n256");
    EXPECT_EQ(chosen(64, 64, 512, Dtype::BF16, transposed), "warp");
  }
  EXPECT_EQ(chosen(4096, 4096, 4096, Dtype::F8E4M3, true), "warp");
}

TEST(GroupMmaTest, WhatTheHeuristicChoosesMultiplies) {
  Target target = *GpuTarget("sm_90a");
  target.units = 2;  // so that a small product is a large one
  const MatrixInstruction i = GroupInstruction("wgmma_bf16_n128");
  EXPECT_EQ(Checked(i, {200, 250, 210, false, false}, nullptr, target), "");
}

TEST(GroupMmaTest, CopiesRunWhileGroupsMultiply) {
  const MatrixInstruction i = GroupInstruction("wgmma_bf16_n32");
  for (const int64_t parts : {2, 3, 4}) {
    for (const bool transposed : {false, true}) {
      for (const int64_t k : {64, 200}) {
        const std::vector<Opt> opts = {{OptKind::kTensorCore, 2, 0},
                                       {OptKind::kLocal, 0, 2},
                                       {OptKind::kUnroll, 2, 2},
                                       {OptKind::kBlock, 2, 1},
                                       {OptKind::kPipeline, 2, parts}};
        const GroupProduct p{136, 40, k, transposed, transposed};
        EXPECT_EQ(Checked(i, p, opts), "") << parts << " parts of " << k;
        UOpContext ctx;
        const auto lines = LinesOf(ctx, i, p, opts);
        ASSERT_TRUE(lines.ok()) << lines.status();
        EXPECT_GT(CountOf(*lines, Op::ASYNC_COPY), 0);
        EXPECT_EQ(CountOf(*lines, Op::BARRIER), 1);
        EXPECT_EQ(CountOf(*lines, Op::SHARED_FENCE), 1);
      }
    }
  }
}

// The loops of both reduced axes stage operands, and the inner one runs ahead anew in each
// iteration of the outer one.
TEST(GroupMmaTest, SumsOverTwoAxesMultiply) {
  constexpr int64_t kM = 66, kN = 34, kOuter = 2, kInner = 72;
  for (const int64_t parts : {0, 2, 3}) {
    UOpContext ctx;
    tests::KernelBuilder b(ctx);
    const UOp i = b.Loop(kM), j = b.Loop(kN), r = b.Reduced(kOuter), k = b.Reduced(kInner);
    const UOp x = b.Load(b.Buffer(1, Dtype::BF16, kM * kOuter * kInner),
                         b.At(b.At(i, kOuter, r), kInner, k)),
              y = b.Load(b.Buffer(2, Dtype::BF16, kN * kOuter * kInner),
                         b.At(b.At(r, kInner, k), kN, j));
    const UOp product = ir::Mul(ctx, ir::Cast(ctx, x, Dtype::F32), ir::Cast(ctx, y, Dtype::F32));
    const UOp sum = ir::ReduceRanges(ctx, Op::ADD, product, std::array<UOp, 2>{r, k});
    const UOp kernel =
        b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, kM * kN), b.At(i, kN, j), sum, {i, j})});
    std::vector<Opt> opts = {{OptKind::kTensorCore, 3, 0}, {OptKind::kUnroll, 3, 2}};
    if (parts > 0) {
      opts.push_back({OptKind::kBlock, 3, 1});
      opts.push_back({OptKind::kPipeline, 3, parts});
    }
    tests::CheckOptions check;
    check.target = GroupTarget(GroupInstruction("wgmma_bf16_n32"));
    check.tolerance = 2e-6;
    check.options.opts = &opts;
    const tests::Memory memory = {tests::SampleBuffer(Dtype::F32, kM * kN, 1, true),
                                  tests::SampleBuffer(Dtype::BF16, kM * kOuter * kInner, 2, true),
                                  tests::SampleBuffer(Dtype::BF16, kN * kOuter * kInner, 3, true)};
    EXPECT_EQ(tests::CheckKernel(ctx, kernel, memory, check).substr(0, 400), "") << parts;
  }
}

// A sum of one step, whose operands a loop fills: there is nothing to run ahead of.
TEST(GroupMmaTest, OneStepHasNoPipeline) {
  const MatrixInstruction i = GroupInstruction("wgmma_bf16_n32");
  const std::vector<Opt> opts = {{OptKind::kTensorCore, 2, 0},
                                 {OptKind::kUnroll, 2, 13},
                                 {OptKind::kBlock, 2, 1},
                                 {OptKind::kPipeline, 2, 2}};
  EXPECT_EQ(Checked(i, {88, 64, 208, false, true}, opts), "");
}

// A warp that fills the rows uses all banks: 16 bytes of each lane, along the rows or across them.
TEST(GroupMmaTest, OperandsAreStoredWithoutConflicts) {
  for (const bool transposed : {false, true}) {
    for (const int64_t steps : {1, 2, 4}) {  // spans of 32, 64 and 128 bytes
      UOpContext ctx;
      const std::vector<Opt> opts = {{OptKind::kTensorCore, 2, 0}, {OptKind::kUnroll, 2, steps}};
      const auto lines = LinesOf(ctx, GroupInstruction("wgmma_bf16_n64"),
                                 {128, 128, 256, transposed, !transposed}, opts);
      ASSERT_TRUE(lines.ok()) << lines.status();
      int stores = 0;
      for (const tests::SharedAccess& a : tests::SharedAccesses(ctx, *lines, 32)) {
        EXPECT_TRUE(a.line.Is(Op::STORE));
        EXPECT_EQ(a.line.src(0).arg().AsInt(), 4);
        EXPECT_EQ(a.words_of_one_bank, 1) << steps << (transposed ? " transposed" : "");
        ++stores;
      }
      EXPECT_GT(stores, 0);
    }
  }
}

// The lines of a product with copies that run on, without those of some op.
absl::StatusOr<codegen::LoweredKernel> ProductWithout(UOpContext& ctx, Op op) {
  const MatrixInstruction i = GroupInstruction("wgmma_bf16_n32");
  const UOp kernel = tests::WideningMatmulKernel(ctx, 64, 32, 64, false, true, Dtype::BF16,
                                                 Dtype::BF16, Dtype::F32);
  const std::vector<Opt> opts = {
      {OptKind::kTensorCore, 2, 0}, {OptKind::kBlock, 2, 1}, {OptKind::kPipeline, 2, 2}};
  codegen::Options options;
  options.opts = &opts;
  UOPD_ASSIGN(codegen::LoweredKernel out, codegen::Lower(ctx, kernel, GroupTarget(i), options));
  std::vector<UOp> lines;
  for (UOp u : out.linear.srcs()) {
    if (!u.Is(op)) lines.push_back(u);
  }
  out.linear = ctx.Make(Op::LINEAR, Dtype::Void, lines);
  return out;
}

// Both the verifier and the interpreter report lines that are missing.
TEST(GroupOrderTest, MissingLinesAreReported) {
  struct Missing {
    Op op;
    std::string_view verifier, interpreter;
  };
  for (const Missing& m :
       {Missing{Op::SHARED_FENCE, "without a SHARED_FENCE", "without a SHARED_FENCE"},
        {Op::BARRIER, "without a BARRIER", "a race"},
        {Op::MMA_BEGIN, "without an MMA_BEGIN", "without an MMA_BEGIN"},
        {Op::MMA_WAIT, "may still change", "may still"},
        {Op::ASYNC_WAIT, "", "a copy is on its way"}}) {
    UOpContext ctx;
    const auto kernel = ProductWithout(ctx, m.op);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    const absl::Status verified = ir::Verify(ctx, kernel->linear, ir::Level::kLinear);
    if (!m.verifier.empty()) {
      EXPECT_THAT(std::string(verified.message()), HasSubstr(std::string(m.verifier)));
    }
    tests::Memory memory = {tests::SampleBuffer(Dtype::F32, 64 * 32, 1, true),
                            tests::SampleBuffer(Dtype::BF16, 64 * 64, 2, true),
                            tests::SampleBuffer(Dtype::BF16, 64 * 32, 3, true)};
    const absl::Status run = tests::RunLowered(
        ctx, *kernel, GroupTarget(GroupInstruction("wgmma_bf16_n32")), memory, {});
    EXPECT_THAT(std::string(run.message()), HasSubstr(std::string(m.interpreter))) << Name(m.op);
  }
}

TEST(GroupOrderTest, AllLinesAreInOrder) {
  UOpContext ctx;
  const auto kernel = ProductWithout(ctx, Op::SHUFFLE);  // there is none
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_TRUE(ir::Verify(ctx, kernel->linear, ir::Level::kLinear).ok());
}

// A group needs its own copies of both operands in shared memory, which other opts do not take from
// it.
TEST(GroupMmaTest, PacksItsOperands) {
  UOpContext ctx;
  const UOp kernel = tests::WideningMatmulKernel(ctx, 128, 64, 64, false, true, Dtype::BF16,
                                                 Dtype::BF16, Dtype::F32);
  const Target target = GroupTarget(GroupInstruction("wgmma_bf16_n32"));
  codegen::OptPlan plan(ctx, kernel, target);
  EXPECT_TRUE(plan.Add({OptKind::kTensorCore, 2, 0}).ok());
  EXPECT_FALSE(plan.Add({OptKind::kPack, 0, 0}).ok());
  plan.Clear();
  EXPECT_TRUE(plan.Add({OptKind::kPack, 0, 0}).ok());
  EXPECT_TRUE(plan.Add({OptKind::kTensorCore, 2, 0}).ok());
}

}  // namespace
}  // namespace uopd
