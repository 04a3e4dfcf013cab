// SPDX-License-Identifier: MIT
// Operands of matrix instructions of warps as words in shared memory.
#include "core/base/target/matrix_instructions.h"
#include "core/codegen/gpu/product/shared_rows.h"
#include "core/ir/shared_array.h"
#include "core/ir/verify/spec.h"
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
using ir::Op;
using ir::UOp;
using ir::UOpContext;

Target TargetWith(const MatrixInstruction& instruction) {
  Target out = tests::BlockTarget(true);
  out.matrix_instructions = {instruction};
  out.warp_lanes = static_cast<int>(instruction.sum_place.lanes());
  out.matrix_loads = false;
  return out;
}

// Two by two warps of two by two tiles, and two steps of the instruction in each step of the block.
std::vector<Opt> PackedTiles() {
  return {{OptKind::kTensorCore, 2, 0}, {OptKind::kUpcast, 0, 2}, {OptKind::kUpcast, 1, 2},
          {OptKind::kLocal, 0, 2},      {OptKind::kLocal, 1, 2},  {OptKind::kBlock, 2, 2},
          {OptKind::kPack, 0, 0},       {OptKind::kPack, 1, 0}};
}

struct Product {
  Dtype element = Dtype::BF16, sum = Dtype::F32;
  int64_t m = 128, n = 128, k = 128;
  bool transpose_a = false, transpose_b = true;
};

absl::StatusOr<codegen::LoweredKernel> Lowered(UOpContext& ctx, const Product& p,
                                               const Target& target, const std::vector<Opt>& opts) {
  const UOp kernel = tests::WideningMatmulKernel(ctx, p.m, p.n, p.k, p.transpose_a, p.transpose_b,
                                                 p.element, p.element, p.sum);
  codegen::Options options;
  options.opts = &opts;
  return codegen::Lower(ctx, kernel, target, options);
}

TEST(SharedRowsTest, PiecesOfEightRowsTakeAllBanks) {
  for (const int64_t words : {4, 8, 12, 16, 20, 32, 64, 100}) {
    const SharedRows rows(16, words);
    EXPECT_EQ(rows.stride() % SharedRows::kPiece, 0);
    EXPECT_GE(rows.stride(), words);
    EXPECT_EQ(rows.size(), 16 * rows.stride());
    for (int64_t first = 0; first + 4 <= words; first += 4) {
      std::vector<int64_t> access;
      for (int64_t lane = 0; lane < 32; ++lane)
        access.push_back(rows.At(lane / 4, first + lane % 4));
      EXPECT_EQ(codegen::WordsOfOneBank(access), 1) << words;
    }
    UOpContext ctx;
    EXPECT_TRUE(rows.Index(ctx, ctx.Idx(3), ctx.Idx(2)).IsConstInt(rows.At(3, 2)));
  }
}

TEST(SharedRowsTest, CountsTheWordsOfABank) {
  EXPECT_EQ(codegen::WordsOfOneBank(std::vector<int64_t>{0, 1, 2, 3}), 1);
  EXPECT_EQ(codegen::WordsOfOneBank(std::vector<int64_t>{5, 5, 5}), 1);  // one word
  EXPECT_EQ(codegen::WordsOfOneBank(std::vector<int64_t>{0, 32, 64, 1}), 3);
}

// The lanes of this one hold steps that lie side by side, which is no fragment of MATRIX_LOAD.
// Their words of two rows meet in a bank.
bool HoldsPairs(const MatrixInstruction& i) { return i.name == "mma_tf32_pairs"; }

TEST(StagedWordsTest, WarpsLoadMatricesWithoutConflicts) {
  for (const MatrixInstruction& i : NvidiaMatrixInstructions(89)) {
    if (HoldsPairs(i)) continue;
    const auto dtype = [](DtypeNumber n) { return *ir::DtypeByWire(static_cast<uint64_t>(n)); };
    for (const bool along_sum : {true, false}) {
      if (!along_sum && ir::Bits(dtype(i.a)) != 16) continue;
      UOpContext ctx;
      Target target = TargetWith(i);
      target.matrix_loads = true;
      const Product product{.element = dtype(i.a),
                            .sum = dtype(i.sum),
                            .transpose_a = !along_sum,
                            .transpose_b = along_sum};
      const auto lowered = Lowered(ctx, product, target, PackedTiles());
      ASSERT_TRUE(lowered.ok()) << lowered.status();
      int loads = 0;
      for (const tests::SharedAccess& a : tests::SharedAccesses(ctx, lowered->linear, 32)) {
        EXPECT_LE(a.words_of_one_bank, a.line.Is(Op::STORE) ? 2 : 1) << i.name;
        EXPECT_FALSE(a.line.Is(Op::LOAD)) << i.name;
        if (!a.line.Is(Op::MATRIX_LOAD)) continue;
        ++loads;
        EXPECT_EQ(a.line.ints()[1], along_sum ? 0 : 1);
      }
      EXPECT_EQ(loads, 2 + 2) << i.name;
      for (UOp u : lowered->linear.srcs()) {
        const UOp base = u.Is(Op::LOAD) ? ir::MaybeBaseOf(u.src(0).src(0)) : UOp();
        if (base && base.Is(Op::PARAM)) {
          EXPECT_EQ(u.src(0).arg().AsInt(), 4) << i.name;
        }
      }
    }
  }
}

TEST(StagedWordsTest, LanesOfNvidiaLoadWordsWithoutConflicts) {
  for (const MatrixInstruction& i : NvidiaMatrixInstructions(89)) {
    UOpContext ctx;
    const auto dtype = [](DtypeNumber n) { return *ir::DtypeByWire(static_cast<uint64_t>(n)); };
    const auto lowered =
        Lowered(ctx, {.element = dtype(i.a), .sum = dtype(i.sum)}, TargetWith(i), PackedTiles());
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    int loads = 0, stores = 0;
    for (const tests::SharedAccess& a : tests::SharedAccesses(ctx, lowered->linear, 32)) {
      // Pieces of two rows that a part of a store writes meet in four banks.
      EXPECT_LE(a.words_of_one_bank, a.line.Is(Op::LOAD) && !HoldsPairs(i) ? 1 : 2) << i.name;
      EXPECT_EQ(ir::MaybeBaseOf(a.line.src(0).src(0)).dtype(), Dtype::U32);
      ++(a.line.Is(Op::LOAD) ? loads : stores);
    }
    EXPECT_EQ(loads, 2 * 4 + 2 * 2) << i.name;  // the words of two tiles of each operand
    EXPECT_GT(stores, 0);
    // What is copied is not computed with: 16 bytes come from memory at a time.
    for (UOp u : lowered->linear.srcs()) {
      EXPECT_FALSE(u.Is({Op::CAST, Op::BITCAST, Op::OR, Op::SHL}) && !ctx.ShapeOf(u)->empty());
      const UOp base = u.Is(Op::LOAD) ? ir::MaybeBaseOf(u.src(0).src(0)) : UOp();
      if (base && base.Is(Op::PARAM)) {
        EXPECT_EQ(u.src(0).arg().AsInt(), 4) << i.name;
      }
    }
  }
}

// Operands in all orders, with sizes that are multiples of nothing, and sums of an odd number of
// terms, whose rows have no words in memory.
TEST(StagedWordsTest, ResultsAreThoseOfElements) {
  std::vector<MatrixInstruction> instructions = NvidiaMatrixInstructions(89);
  for (const char* processor : {"gfx90a", "gfx942", "gfx1100", "gfx1201"}) {
    for (const MatrixInstruction& i : AmdMatrixInstructions(processor)) instructions.push_back(i);
  }
  for (const MatrixInstruction& i : instructions) {
    const auto dtype = [](DtypeNumber n) { return *ir::DtypeByWire(static_cast<uint64_t>(n)); };
    for (const int64_t k : {70, 45}) {
      for (const auto& [transposed, matrix_loads] :
           {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
        if (matrix_loads && !i.name.starts_with("mma")) continue;
        UOpContext ctx;
        const int64_t m = transposed ? 68 : 67, n = transposed ? 45 : 46;
        const UOp kernel = tests::WideningMatmulKernel(ctx, m, n, k, transposed, transposed,
                                                       dtype(i.a), dtype(i.b), dtype(i.sum));
        tests::CheckOptions check;
        check.target = TargetWith(i);
        check.target.matrix_loads = matrix_loads;
        check.tolerance = ir::IsFloat(dtype(i.sum)) ? 2e-6 : 0;
        const std::vector<Opt> opts = PackedTiles();
        check.options.opts = &opts;
        const tests::Memory memory = {tests::SampleBuffer(dtype(i.sum), m * n, 1, true),
                                      tests::SampleBuffer(dtype(i.a), m * k, 2, true),
                                      tests::SampleBuffer(dtype(i.b), k * n, 3, true)};
        EXPECT_EQ(tests::CheckKernel(ctx, kernel, memory, check).substr(0, 400), "")
            << i.name << " " << k << (transposed ? " transposed" : "");
      }
    }
  }
}

// Copies run while the threads compute, in as many parts of the arrays as PIPELINE says, also of
// fewer steps.
TEST(PipelineTest, ResultsAreThoseOfOneStepAfterTheOther) {
  for (const int64_t k : {64, 96, 160, 200}) {
    for (const int64_t parts : {2, 3, 4}) {
      for (const bool transposed : {false, true}) {
        UOpContext ctx;
        const int64_t m = 72, n = 40;
        const UOp kernel = tests::WideningMatmulKernel(ctx, m, n, k, transposed, transposed,
                                                       Dtype::BF16, Dtype::BF16, Dtype::F32);
        tests::CheckOptions check;
        check.target = TargetWith(NvidiaMatrixInstructions(80)[0]);
        check.target.matrix_loads = true;
        check.tolerance = 2e-6;
        std::vector<Opt> opts = PackedTiles();
        opts.push_back({OptKind::kPipeline, 2, parts});
        check.options.opts = &opts;
        const auto lowered = codegen::Lower(ctx, kernel, check.target, check.options);
        ASSERT_TRUE(lowered.ok()) << lowered.status();
        int copies = 0, stores = 0, barriers = 0;
        for (UOp u : lowered->linear.srcs()) {
          copies += u.Is(Op::ASYNC_COPY) ? 1 : 0;
          barriers += u.Is(Op::BARRIER) ? 1 : 0;
          stores += u.Is(Op::STORE) && ir::IsShared(ir::MaybeBaseOf(u.src(0).src(0))) ? 1 : 0;
        }
        EXPECT_GT(copies, 0);
        EXPECT_EQ(stores, 0);
        EXPECT_EQ(barriers, 1);
        const tests::Memory memory = {tests::SampleBuffer(Dtype::F32, m * n, 1, true),
                                      tests::SampleBuffer(Dtype::BF16, m * k, 2, true),
                                      tests::SampleBuffer(Dtype::BF16, k * n, 3, true)};
        EXPECT_EQ(tests::CheckKernel(ctx, kernel, memory, check).substr(0, 400), "")
            << k << " in " << parts << " parts" << (transposed ? " transposed" : "");
      }
    }
  }
}

TEST(PipelineTest, NeedsABlockOfWhatIsPacked) {
  UOpContext ctx;
  const Target target = TargetWith(NvidiaMatrixInstructions(80)[0]);
  const Opt pipeline{OptKind::kPipeline, 2, 2};
  std::vector<Opt> opts = PackedTiles();
  opts.pop_back(), opts.pop_back();
  opts.push_back(pipeline);
  EXPECT_EQ(Lowered(ctx, {}, target, opts).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Lowered(ctx, {}, target, {pipeline}).status().code(),
            absl::StatusCode::kInvalidArgument);
  opts = PackedTiles();
  opts.push_back({OptKind::kPipeline, 2, 9});
  EXPECT_EQ(Lowered(ctx, {}, target, opts).status().code(), absl::StatusCode::kInvalidArgument);
  Target none = target;
  none.async_copies = false;
  opts.back() = {OptKind::kPipeline, 2, 3};
  EXPECT_EQ(Lowered(ctx, {}, none, opts).status().code(), absl::StatusCode::kInvalidArgument);
}

// Without such copies the loads of the next step come before the products of this one.
TEST(PipelineTest, RegistersHoldTheNextStep) {
  for (const int64_t k : {64, 90, 200}) {
    for (const bool transposed : {false, true}) {
      UOpContext ctx;
      const int64_t m = 72, n = 40;
      const UOp kernel = tests::WideningMatmulKernel(ctx, m, n, k, transposed, transposed,
                                                     Dtype::BF16, Dtype::BF16, Dtype::F32);
      tests::CheckOptions check;
      check.target = TargetWith(AmdMatrixInstructions("gfx90a")[0]);
      check.target.warp_lanes = 64;
      check.target.matrix_loads = check.target.async_copies = false;
      check.tolerance = 2e-6;
      std::vector<Opt> opts = PackedTiles();
      opts.push_back({OptKind::kPipeline, 2, 2});
      check.options.opts = &opts;
      const auto lowered = codegen::Lower(ctx, kernel, check.target, check.options);
      ASSERT_TRUE(lowered.ok()) << lowered.status();
      // Loads from memory, products and stores to shared arrays; each line is a loop: in front of
      // the steps, the steps, and the products of a step.
      std::string order;
      for (UOp u : lowered->linear.srcs()) {
        char c = 0;
        if (u.Is(Op::RANGE)) order += "\n";
        if (u.Is(Op::LOAD) && ir::MaybeBaseOf(u.src(0).src(0)).Is(Op::PARAM)) c = 'l';
        if (u.Is(Op::MMA)) c = 'w';
        if (u.Is(Op::STORE) && ir::IsShared(ir::MaybeBaseOf(u.src(0).src(0)))) c = 's';
        if (c != 0 && (order.empty() || order.back() != c)) order += c;
      }
      // A load whose lanes have gates of their own is done in its step.
      EXPECT_EQ(order, k == 90 ? "ls\nls\nws" : "ls\nl\nws") << k;
      const tests::Memory memory = {tests::SampleBuffer(Dtype::F32, m * n, 1, true),
                                    tests::SampleBuffer(Dtype::BF16, m * k, 2, true),
                                    tests::SampleBuffer(Dtype::BF16, k * n, 3, true)};
      EXPECT_EQ(tests::CheckKernel(ctx, kernel, memory, check).substr(0, 400), "")
          << k << (transposed ? " transposed" : "");
    }
  }
}

}  // namespace
}  // namespace uopd
