// SPDX-License-Identifier: MIT
// Products by groups of warps whose operands one thread copies as boxes of matrices.
#include <cmath>
#include <cstring>

#include "core/base/target/gpu_targets.h"
#include "core/base/target/matrix_instructions.h"
#include "core/base/text.h"
#include "core/ir/analysis/eval.h"
#include "core/ir/dtype.h"
#include "core/ir/role.h"
#include "core/ir/tensor_map.h"
#include "core/ir/verify/spec.h"
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

Target BulkTarget(std::string_view instruction) {
  Target out = tests::BlockTarget(true);
  out.bulk_copies = true;
  out.shared_bytes = 227 << 10;
  for (const MatrixInstruction& i : WarpgroupMatrixInstructions()) {
    if (i.name == instruction) out.matrix_instructions = {i};
  }
  EXPECT_EQ(out.matrix_instructions.size(), 1u) << instruction;
  return out;
}

struct BulkProduct {
  int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  int64_t batch = 1;
};

// Products of a batch: their operands lie one after the other.
UOp BatchKernel(UOpContext& ctx, const BulkProduct& p, Dtype d, Dtype sum) {
  if (p.batch == 1)
    return tests::WideningMatmulKernel(ctx, p.m, p.n, p.k, p.transpose_a, p.transpose_b, d, d, sum);
  tests::KernelBuilder b(ctx);
  const UOp c = b.Buffer(0, sum, p.batch * p.m * p.n), x = b.Buffer(1, d, p.batch * p.m * p.k),
            y = b.Buffer(2, d, p.batch * p.k * p.n);
  const UOp e = b.Loop(p.batch), i = b.Loop(p.m), j = b.Loop(p.n), l = b.Reduced(p.k);
  const UOp left = b.Load(x, b.At(e, p.m * p.k, p.transpose_a ? b.At(l, p.m, i) : b.At(i, p.k, l))),
            right =
                b.Load(y, b.At(e, p.k * p.n, p.transpose_b ? b.At(j, p.k, l) : b.At(l, p.n, j)));
  const UOp product = ir::Mul(ctx, ir::Cast(ctx, left, sum), ir::Cast(ctx, right, sum));
  return b.Kernel(
      {b.StoreLoops(c, b.At(e, p.m * p.n, b.At(i, p.n, j)),
                    ir::ReduceRanges(ctx, Op::ADD, product, std::array<UOp, 1>{l}), {e, i, j})});
}

int64_t LinesWith(UOp linear, Op op) {
  return std::ranges::count_if(linear.srcs(), [&](UOp u) { return u.Is(op); });
}

double NumberAt(Dtype d, const std::vector<uint8_t>& bytes, int64_t i) {
  uint64_t raw = 0;
  const auto size = static_cast<size_t>(ir::ByteSize(d));
  std::memcpy(&raw, &bytes[static_cast<size_t>(i) * size], size);
  return ir::IsFloat(d) ? ir::DecodeFloat(d, raw)
                        : static_cast<double>(ir::WrapTo(d, static_cast<ir::Int128>(raw)));
}

// Compares the products in memory with sums in f64. The first difference, or nothing.
std::string Difference(const BulkProduct& p, Dtype d, Dtype sum, const tests::Memory& memory) {
  for (int64_t e = 0; e < p.batch; ++e) {
    for (int64_t r = 0; r < p.m; ++r) {
      for (int64_t c = 0; c < p.n; ++c) {
        double want = 0, size = 0;
        for (int64_t k = 0; k < p.k; ++k) {
          const int64_t a = e * p.m * p.k + (p.transpose_a ? k * p.m + r : r * p.k + k),
                        b = e * p.k * p.n + (p.transpose_b ? c * p.k + k : k * p.n + c);
          const double x = NumberAt(d, memory[1], a) * NumberAt(d, memory[2], b);
          want += x;
          size += std::abs(x);
        }
        const double got = NumberAt(sum, memory[0], (e * p.m + r) * p.n + c);
        if (!(std::abs(got - want) <= (ir::IsFloat(sum) ? 1e-6 * size : 0)))
          return Cat("result ", e, ", ", r, ", ", c, " is ", got, ", not ", want);
      }
    }
  }
  return "";
}

// Runs the product on the interpreter and checks it. Whether it copies boxes, and by warps that do
// nothing else.
enum class CopiedBy : uint8_t { kThreads, kBoxes, kRoles };
CopiedBy HowItCopies(const Target& target, const BulkProduct& p, Dtype d,
                     const std::vector<Opt>& opts) {
  UOpContext ctx;
  const Dtype sum = ir::IsFloat(d) ? Dtype::F32 : Dtype::I32;
  const UOp kernel = BatchKernel(ctx, p, d, sum);
  codegen::Options options;
  options.opts = &opts;
  const auto lowered = codegen::Lower(ctx, kernel, target, options);
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  if (!lowered.ok()) return CopiedBy::kThreads;
  tests::Memory memory = {tests::SampleBuffer(sum, p.batch * p.m * p.n, 1, true),
                          tests::SampleBuffer(d, p.batch * p.m * p.k, 2, true),
                          tests::SampleBuffer(d, p.batch * p.k * p.n, 3, true)};
  const absl::Status run = tests::RunLowered(ctx, *lowered, target, memory, {});
  EXPECT_TRUE(run.ok()) << run;
  EXPECT_EQ(Difference(p, d, sum, memory), "") << p.m << 'x' << p.n << 'x' << p.k;
  const int64_t boxes = LinesWith(lowered->linear, Op::BULK_COPY);
  const bool roles = LinesWith(lowered->linear, Op::ROLE) > 0;
  EXPECT_EQ(LinesWith(lowered->linear, Op::BULK_WAIT), roles ? 2 : boxes > 0 ? 1 : 0);
  EXPECT_EQ(lowered->launch.maps.empty(), boxes == 0);
  EXPECT_EQ(lowered->launch.maps, ir::TensorMapsOf(lowered->linear));
  if (boxes > 0) {
    EXPECT_EQ(LinesWith(lowered->linear, Op::ASYNC_COPY), 0);
    EXPECT_EQ(LinesWith(lowered->linear, Op::SHARED_FENCE), 0);
  }
  return roles ? CopiedBy::kRoles : boxes > 0 ? CopiedBy::kBoxes : CopiedBy::kThreads;
}
bool CopiesBoxes(const Target& target, const BulkProduct& p, Dtype d,
                 const std::vector<Opt>& opts) {
  return HowItCopies(target, p, d, opts) == CopiedBy::kBoxes;
}

std::vector<Opt> BulkOpts(int axis, int64_t parts, int64_t unroll = 2, int64_t warps = 0) {
  return {{OptKind::kTensorCore, axis, 0},
          {OptKind::kLocal, axis - 2, 2},
          {OptKind::kUnroll, axis, unroll},
          {OptKind::kBlock, axis, 1},
          {OptKind::kPipeline, axis, parts, warps}};
}

TEST(BulkPlanTest, WholeTilesAreCopiedAsBoxes) {
  const Target target = BulkTarget("wgmma_bf16_n32");
  for (const int64_t parts : {2, 3, 4}) {
    for (const bool transposed : {false, true}) {
      for (const int64_t k : {64, 192}) {
        EXPECT_TRUE(CopiesBoxes(target, {128, 64, k, transposed, !transposed}, Dtype::BF16,
                                BulkOpts(2, parts)))
            << parts << ' ' << transposed << ' ' << k;
      }
    }
  }
}

// Spans of 32 and 128 bytes, and several spans of a row.
TEST(BulkPlanTest, RowsOfManyLengthsAreCopied) {
  const Target target = BulkTarget("wgmma_f16_n32");
  for (const int64_t unroll : {1, 4, 8}) {
    for (const bool transposed : {false, true})
      EXPECT_TRUE(CopiesBoxes(target, {128, 32, 384, transposed, !transposed}, Dtype::F16,
                              BulkOpts(2, 3, unroll)))
          << unroll;
  }
}

TEST(BulkPlanTest, BytesAndBatchesAreCopied) {
  EXPECT_TRUE(CopiesBoxes(BulkTarget("wgmma_i8_n32"), {128, 64, 256, false, true}, Dtype::I8,
                          BulkOpts(2, 3)));
  EXPECT_TRUE(CopiesBoxes(BulkTarget("wgmma_bf16_n32"), {128, 32, 96, false, true, 3}, Dtype::BF16,
                          BulkOpts(3, 3)));
}

// Threads copy what is no whole tile, and rows that begin at no multiple of 16 bytes.
TEST(BulkPlanTest, OthersAreCopiedByThreads) {
  const Target target = BulkTarget("wgmma_bf16_n32");
  for (const BulkProduct& p : {BulkProduct{136, 64, 192, false, true},
                               {128, 40, 192, false, true},
                               {128, 64, 200, false, true},
                               {128, 64, 196, false, true}})
    EXPECT_FALSE(CopiesBoxes(target, p, Dtype::BF16, BulkOpts(2, 3)));
  Target without = target;
  without.bulk_copies = false;
  EXPECT_FALSE(CopiesBoxes(without, {128, 64, 192, false, true}, Dtype::BF16, BulkOpts(2, 3)));
}

// Barriers have no room where the tiles take all memory.
TEST(BulkPlanTest, BarriersNeedRoom) {
  Target target = BulkTarget("wgmma_bf16_n32");
  UOpContext ctx;
  const std::vector<Opt> opts = BulkOpts(2, 2);
  const BulkProduct p{128, 64, 192, false, true};
  const int64_t tiles = 2 * (128 + 32) * 32 * 2;  // parts, rows, elements of a span, bytes
  target.shared_bytes = tiles;
  EXPECT_FALSE(CopiesBoxes(target, p, Dtype::BF16, opts));
  target.shared_bytes = tiles + 128;
  EXPECT_TRUE(CopiesBoxes(target, p, Dtype::BF16, opts));
}

// Warps that copy alone: one, or a group that gives its registers to the others.
TEST(RolePlanTest, WarpsCopyForOthers) {
  for (const int64_t producers : {1, 4}) {
    for (const int64_t parts : {2, 3, 4}) {
      for (const bool transposed : {false, true}) {
        for (const int64_t k : {32, 160}) {
          EXPECT_EQ(HowItCopies(BulkTarget("wgmma_bf16_n32"), {128, 32, k, transposed, !transposed},
                                Dtype::BF16, BulkOpts(2, parts, 2, producers)),
                    k == 32 ? CopiedBy::kThreads : CopiedBy::kRoles)
              << parts << ' ' << producers << ' ' << transposed << ' ' << k;
        }
      }
    }
    EXPECT_EQ(HowItCopies(BulkTarget("wgmma_i8_n32"), {128, 64, 256, false, true}, Dtype::I8,
                          BulkOpts(2, 3, 2, producers)),
              CopiedBy::kRoles);
    EXPECT_EQ(HowItCopies(BulkTarget("wgmma_bf16_n32"), {128, 32, 96, false, true, 3}, Dtype::BF16,
                          BulkOpts(3, 2, 2, producers)),
              CopiedBy::kRoles);
    // No whole tiles.
    EXPECT_EQ(HowItCopies(BulkTarget("wgmma_bf16_n32"), {128, 40, 192, false, true}, Dtype::BF16,
                          BulkOpts(2, 3, 2, producers)),
              CopiedBy::kThreads);
  }
}

TEST(RolePlanTest, RolesNeedRoomForTheirThreadsAndBarriers) {
  Target target = BulkTarget("wgmma_bf16_n32");
  const BulkProduct p{128, 64, 192, false, true};
  target.max_block_threads = 287;
  EXPECT_EQ(HowItCopies(target, p, Dtype::BF16, BulkOpts(2, 2, 2, 1)), CopiedBy::kBoxes);
  target.max_block_threads = 288;
  EXPECT_EQ(HowItCopies(target, p, Dtype::BF16, BulkOpts(2, 2, 2, 1)), CopiedBy::kRoles);
  const int64_t tiles = 2 * (128 + 32) * 32 * 2;
  target.shared_bytes = tiles + 128;
  EXPECT_EQ(HowItCopies(target, p, Dtype::BF16, BulkOpts(2, 2, 2, 1)), CopiedBy::kBoxes);
  target.shared_bytes = tiles + 256;
  EXPECT_EQ(HowItCopies(target, p, Dtype::BF16, BulkOpts(2, 2, 2, 1)), CopiedBy::kRoles);
}

TEST(RolePlanTest, ABlockHasTheThreadsAndRegistersOfItsRoles) {
  for (const int64_t producers : {1, 4}) {
    UOpContext ctx;
    codegen::Options options;
    const std::vector<Opt> opts = BulkOpts(2, 3, 2, producers);
    options.opts = &opts;
    const auto lowered =
        codegen::Lower(ctx, BatchKernel(ctx, {128, 64, 192, false, true}, Dtype::BF16, Dtype::F32),
                       BulkTarget("wgmma_bf16_n32"), options);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_EQ(lowered->launch.block[0].Evaluate({}), 256 + 32 * producers);
    std::vector<ir::WarpRole> roles;
    size_t barriers = 0;
    for (UOp u : lowered->linear.srcs()) {
      if (u.Is(Op::ROLE)) roles.push_back(ir::WarpRole::Of(u));
      barriers += u.Is(Op::BARRIER) ? 1 : 0;
    }
    ASSERT_EQ(roles.size(), 2u);
    EXPECT_EQ(barriers, 1u);
    EXPECT_EQ(roles[0].first, 256);
    EXPECT_EQ(roles[0].active, 1);
    EXPECT_EQ(roles[0].registers, producers == 4 ? 40 : 0);
    EXPECT_EQ(roles[1].registers, producers == 4 ? 232 : 0);
  }
}

// Each wait and arrival of what codegen makes is needed: without it the verifier or the interpreter
// complains.
TEST(RolePlanTest, EveryWaitAndArrivalIsNeeded) {
  UOpContext ctx;
  codegen::Options options;
  const std::vector<Opt> opts = BulkOpts(2, 2, 2, 1);
  options.opts = &opts;
  const Target target = BulkTarget("wgmma_bf16_n32");
  const BulkProduct p{128, 32, 192, false, true};
  auto lowered = codegen::Lower(ctx, BatchKernel(ctx, p, Dtype::BF16, Dtype::F32), target, options);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  const std::vector<UOp> lines(lowered->linear.srcs().begin(), lowered->linear.srcs().end());
  int removed = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].Is({Op::BULK_WAIT, Op::BULK_ARRIVE, Op::MMA_WAIT})) continue;
    std::vector<UOp> fewer = lines;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    // An END whose statement is missing closes its loop all the same.
    lowered->linear = ctx.Make(Op::LINEAR, Dtype::Void, fewer);
    ++removed;
    const bool verified = ir::Verify(ctx, lowered->linear, ir::Level::kLinear).ok();
    tests::Memory memory = {tests::SampleBuffer(Dtype::F32, p.m * p.n, 1, true),
                            tests::SampleBuffer(Dtype::BF16, p.m * p.k, 2, true),
                            tests::SampleBuffer(Dtype::BF16, p.k * p.n, 3, true)};
    const absl::Status run = tests::RunLowered(ctx, *lowered, target, memory, {});
    EXPECT_FALSE(run.ok()) << "without line " << i << ", verified: " << verified;
  }
  EXPECT_EQ(removed, 5);
}

// Large products on sm_90a, without tuning.
TEST(BulkPlanTest, LargeProductsCopyBoxes) {
  const Target target = *GpuTarget("sm_90a");
  for (const bool transposed : {false, true}) {
    UOpContext ctx;
    const UOp kernel = tests::WideningMatmulKernel(ctx, 4096, 4096, 4096, transposed, !transposed,
                                                   Dtype::BF16, Dtype::BF16, Dtype::F32);
    const auto lowered = codegen::Lower(ctx, kernel, target, {});
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_GT(LinesWith(lowered->linear, Op::BULK_COPY), 0);
    EXPECT_EQ(LinesWith(lowered->linear, Op::ASYNC_COPY), 0);
    EXPECT_EQ(lowered->launch.maps.size(), 2u);
  }
}

// Long sums get a warp that copies alone, short ones do not.
TEST(RolePlanTest, TheHeuristicChoosesByTheStepsOfTheSum) {
  const Target target = *GpuTarget("sm_90a");
  for (const int64_t steps : {8, 10, 11, 64}) {
    UOpContext ctx;
    const UOp kernel = tests::WideningMatmulKernel(ctx, 4096, 4096, 64 * steps, false, true,
                                                   Dtype::BF16, Dtype::BF16, Dtype::F32);
    const auto lowered = codegen::Lower(ctx, kernel, target, {});
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_GT(LinesWith(lowered->linear, Op::BULK_COPY), 0) << steps;
    EXPECT_EQ(LinesWith(lowered->linear, Op::ROLE), steps > 10 ? 2 : 0) << steps;
  }
}

}  // namespace
}  // namespace uopd
