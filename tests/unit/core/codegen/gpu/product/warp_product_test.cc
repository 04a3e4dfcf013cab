// SPDX-License-Identifier: MIT
// Products by matrix instructions of warps: the descriptions of the instructions, and kernels that
// use them.
#include <set>

#include "core/base/target/matrix_instructions.h"
#include "core/codegen/opts/opt_plan.h"
#include "gtest/gtest.h"
#include "tests/support/kernel_check.h"
#include "tests/support/lowered_run.h"

namespace uopd {
namespace {

using codegen::Opt;
using codegen::OptKind;
using ir::UOpContext;

std::vector<MatrixInstruction> AllInstructions() {
  std::vector<MatrixInstruction> out = NvidiaMatrixInstructions(89);
  for (const char* processor : {"gfx90a", "gfx942", "gfx1100", "gfx1201"}) {
    for (const MatrixInstruction& i : AmdMatrixInstructions(processor)) out.push_back(i);
  }
  return out;
}

// Every element of an operand is in some lane, and as often as every other.
void ExpectCovers(const Fragment& place, char first, int64_t rows, char second, int64_t columns) {
  std::map<std::pair<int64_t, int64_t>, int> seen;
  for (int64_t lane = 0; lane < place.lanes(); ++lane) {
    for (int64_t e = 0; e < place.elements(); ++e)
      ++seen[{place.Place(first, lane, e), place.Place(second, lane, e)}];
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()), rows * columns) << place.Text();
  for (const auto& [at, times] : seen) {
    EXPECT_EQ(times, seen.begin()->second) << place.Text();
    EXPECT_LT(at.first, rows);
    EXPECT_LT(at.second, columns);
  }
}

TEST(WarpTileTest, FragmentsCoverTheirMatrices) {
  for (const MatrixInstruction& i : AllInstructions()) {
    ExpectCovers(i.a_place, 'r', i.m, 'k', i.k);
    ExpectCovers(i.b_place, 'k', i.k, 'c', i.n);
    ExpectCovers(i.sum_place, 'r', i.m, 'c', i.n);
    EXPECT_EQ(Fragment::Of(i.a_place.Text()), i.a_place);
  }
}

// The places that the PTX ISA gives in formulas, for m16n8k16 and elements of 16 bits.
TEST(WarpTileTest, FragmentsAreThoseOfThePtxIsa) {
  const MatrixInstruction i = NvidiaMatrixInstructions(80)[0];
  for (int64_t lane = 0; lane < 32; ++lane) {
    const int64_t group = lane >> 2, in_group = lane % 4;
    for (int64_t e = 0; e < 8; ++e) {
      const bool low_rows = e < 2 || (e >= 4 && e < 6);
      EXPECT_EQ(i.a_place.Place('r', lane, e), low_rows ? group : group + 8);
      EXPECT_EQ(i.a_place.Place('k', lane, e), in_group * 2 + (e & 1) + (e < 4 ? 0 : 8));
    }
    for (int64_t e = 0; e < 4; ++e) {
      EXPECT_EQ(i.b_place.Place('k', lane, e), in_group * 2 + (e & 1) + (e < 2 ? 0 : 8));
      EXPECT_EQ(i.b_place.Place('c', lane, e), group);
      EXPECT_EQ(i.sum_place.Place('r', lane, e), e < 2 ? group : group + 8);
      EXPECT_EQ(i.sum_place.Place('c', lane, e), in_group * 2 + (e & 1));
    }
  }
}

// And for m16n8k8 and elements of tf32.
TEST(WarpTileTest, FragmentsOfTf32AreThoseOfThePtxIsa) {
  const std::vector<MatrixInstruction> all = NvidiaMatrixInstructions(80);
  const auto i = std::ranges::find(all, std::string("mma_tf32"), &MatrixInstruction::name);
  ASSERT_NE(i, all.end());
  EXPECT_EQ(std::tuple(i->m, i->n, i->k), std::tuple(16, 8, 8));
  for (int64_t lane = 0; lane < 32; ++lane) {
    const int64_t group = lane >> 2, in_group = lane % 4;
    for (int64_t e = 0; e < 4; ++e) {
      EXPECT_EQ(i->a_place.Place('r', lane, e), e == 0 || e == 2 ? group : group + 8);
      EXPECT_EQ(i->a_place.Place('k', lane, e), e < 2 ? in_group : in_group + 4);
      EXPECT_EQ(i->sum_place.Place('r', lane, e), e < 2 ? group : group + 8);
      EXPECT_EQ(i->sum_place.Place('c', lane, e), in_group * 2 + (e & 1));
    }
    for (int64_t e = 0; e < 2; ++e) {
      EXPECT_EQ(i->b_place.Place('k', lane, e), e == 0 ? in_group : in_group + 4);
      EXPECT_EQ(i->b_place.Place('c', lane, e), group);
    }
  }
}

struct Shape {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
};

TEST(WarpTileTest, EveryInstructionMultiplies) {
  for (const MatrixInstruction& i : AllInstructions()) {
    const auto dtype = [](DtypeNumber n) { return *ir::DtypeByWire(static_cast<uint64_t>(n)); };
    for (const Shape& s : {Shape{32, 24, 64, false, false}, {19, 37, 45, true, true}}) {
      for (const bool packed : {false, true}) {
        UOpContext ctx;
        const ir::UOp kernel = tests::WideningMatmulKernel(
            ctx, s.m, s.n, s.k, s.transpose_a, s.transpose_b, dtype(i.a), dtype(i.b), dtype(i.sum));
        tests::CheckOptions check;
        check.target = tests::BlockTarget(true);
        check.target.warp_lanes = static_cast<int>(i.sum_place.lanes());
        check.target.matrix_instructions = {i};
        check.tolerance = ir::IsFloat(dtype(i.sum)) ? 2e-6 : 0;
        std::vector<Opt> opts = {
            {OptKind::kTensorCore, 2, 0}, {OptKind::kUpcast, 0, 2}, {OptKind::kLocal, 1, 2}};
        if (packed) {
          opts.push_back({OptKind::kBlock, 2, 2});
          opts.push_back({OptKind::kPack, 0, 0});
          opts.push_back({OptKind::kPack, 1, 0});
        }
        check.options.opts = &opts;
        const tests::Memory memory = {tests::SampleBuffer(dtype(i.sum), s.m * s.n, 1, true),
                                      tests::SampleBuffer(dtype(i.a), s.m * s.k, 2, true),
                                      tests::SampleBuffer(dtype(i.b), s.k * s.n, 3, true)};
        EXPECT_EQ(tests::CheckKernel(ctx, kernel, memory, check).substr(0, 400), "")
            << i.name << " " << s.m << "x" << s.n << "x" << s.k << (packed ? " packed" : "");
      }
    }
  }
}

// Words of operands cannot be vectors of words.
TEST(WarpTileTest, OperandsDependOnNoVectorAxis) {
  UOpContext ctx;
  const ir::UOp kernel = tests::WideningMatmulKernel(ctx, 64, 64, 64, false, false, ir::Dtype::BF16,
                                                     ir::Dtype::BF16, ir::Dtype::F32);
  Target target = tests::BlockTarget(true);
  target.matrix_instructions = {NvidiaMatrixInstructions(80)[0]};
  const Opt tile{OptKind::kTensorCore, 2, 0};
  for (const int axis : {0, 1, 2}) {
    const Opt vector{OptKind::kVector, axis, 2};
    for (const std::vector<Opt>& opts : {std::vector<Opt>{tile, vector}, {vector, tile}}) {
      codegen::OptPlan plan(ctx, kernel, target);
      EXPECT_TRUE(plan.Add(opts[0]).ok());
      EXPECT_EQ(plan.Add(opts[1]).code(), absl::StatusCode::kInvalidArgument)
          << Text(opts[0]) << " " << Text(opts[1]);
    }
  }
}

// Products of small elements get the instruction without tuning, also where their sizes are no
// multiples of it.
TEST(WarpTileTest, TheHeuristicChoosesTheInstruction) {
  struct Chip {
    std::vector<MatrixInstruction> instructions;
    int warp_lanes;
  };
  for (const Chip& chip : {Chip{NvidiaMatrixInstructions(80), 32},
                           {AmdMatrixInstructions("gfx90a"), 64},
                           {AmdMatrixInstructions("gfx1100"), 32}}) {
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{64, 48, 64}, {67, 45, 70}}) {
      for (const ir::Dtype dtype : {ir::Dtype::BF16, ir::Dtype::F16}) {
        UOpContext ctx;
        const ir::UOp kernel =
            tests::WideningMatmulKernel(ctx, m, n, k, false, true, dtype, dtype, ir::Dtype::F32);
        tests::CheckOptions check;
        check.target = tests::BlockTarget(true);
        check.target.warp_lanes = chip.warp_lanes;
        check.target.matrix_instructions = chip.instructions;
        check.tolerance = 2e-6;
        const auto lowered = codegen::Lower(ctx, kernel, check.target, {});
        ASSERT_TRUE(lowered.ok()) << lowered.status();
        EXPECT_EQ(lowered->opts.at(0).kind, OptKind::kTensorCore);
        EXPECT_EQ(lowered->opts.back().kind, OptKind::kPipeline);
        const tests::Memory memory = {tests::SampleBuffer(ir::Dtype::F32, m * n, 1, true),
                                      tests::SampleBuffer(dtype, m * k, 2, true),
                                      tests::SampleBuffer(dtype, k * n, 3, true)};
        EXPECT_EQ(tests::CheckKernel(ctx, kernel, memory, check).substr(0, 400), "")
            << chip.instructions[0].name << " " << m << "x" << n << "x" << k;
      }
    }
  }
}

}  // namespace
}  // namespace uopd
