// SPDX-License-Identifier: MIT
// Products of tf32: what rounds, where it rounds, and which instructions multiply.
#include <bit>
#include <cmath>
#include <cstring>

#include "core/base/target/gpu_targets.h"
#include "core/base/target/matrix_instructions.h"
#include "core/base/text.h"
#include "core/codegen/codegen.h"
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

struct Tf32Product {
  int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  Dtype stored = Dtype::F32;  // of the factors in memory
  bool rounds = true;         // to tf32; else the factors are multiplied as they are
};

UOp Tf32Kernel(UOpContext& ctx, const Tf32Product& p) {
  tests::KernelBuilder b(ctx);
  const UOp i = b.Loop(p.m), j = b.Loop(p.n), l = b.Reduced(p.k);
  const auto factor = [&](int64_t slot, int64_t size, UOp at) {
    UOp x = b.Load(b.Buffer(slot, p.stored, size), at);
    if (p.rounds) x = ir::Cast(ctx, x, Dtype::TF32);
    return ir::Cast(ctx, x, Dtype::F32);
  };
  const UOp product =
      ir::Mul(ctx, factor(1, p.m * p.k, p.transpose_a ? b.At(l, p.m, i) : b.At(i, p.k, l)),
              factor(2, p.k * p.n, p.transpose_b ? b.At(j, p.k, l) : b.At(l, p.n, j)));
  const UOp sum = ir::ReduceRanges(ctx, Op::ADD, product, std::array<UOp, 1>{l});
  return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, p.m * p.n), b.At(i, p.n, j), sum, {i, j})});
}

// To the nearest tf32, half away from zero: independent of the compiler's conversions.
float NearestTf32(float x) {
  if (!std::isfinite(x)) return x;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + 0x1000) & 0xffffe000);
}

Target Tf32Target(bool groups, bool converts) {
  Target out = tests::BlockTarget(true);
  const std::vector<MatrixInstruction> all =
      groups ? WarpgroupMatrixInstructions() : NvidiaMatrixInstructions(80);
  for (const MatrixInstruction& i : all) {
    if (i.a == DtypeNumber::TF32 && i.n <= 64 && out.matrix_instructions.empty())
      out.matrix_instructions = {i};
  }
  if (groups) out.shared_bytes = 227 << 10;
  if (converts) out.dtypes.Add(DtypeNumber::TF32);
  return out;
}

// Slots 1 and 2: values of many magnitudes that are no tf32. `hard`: with NaN, infinities, the NaN
// that NVIDIA's chips make (all bits of the mantissa), the largest f32 and denormals in some rows
// and columns.
tests::Memory Tf32Memory(const Tf32Product& p, bool hard) {
  tests::Memory out = {tests::SampleBuffer(Dtype::F32, p.m * p.n, 1, true)};
  for (const int64_t size : {p.m * p.k, p.k * p.n}) {
    std::vector<uint8_t> bytes(static_cast<size_t>(size * 4));
    for (int64_t i = 0; i < size; ++i) {
      const int64_t n = (i * 2654435761 + size) % 4093;
      float x = static_cast<float>(
          std::ldexp(1 + static_cast<double>(n) / 4093, static_cast<int>(n % 7) - 3) *
          (n % 2 == 0 ? 1 : -1));
      if (hard && i % 97 == 11) {
        const float all[] = {INFINITY,      -INFINITY, std::bit_cast<float>(0x7fffffffu),
                             3.4028235e38f, 1e-40f,    -0.0f};
        x = all[static_cast<size_t>(i / 97) % std::size(all)];
      }
      if (p.stored == Dtype::TF32) x = NearestTf32(x);
      std::memcpy(&bytes[static_cast<size_t>(i * 4)], &x, 4);
    }
    out.push_back(std::move(bytes));
  }
  return out;
}

float FloatAt(const std::vector<uint8_t>& bytes, int64_t i) {
  float out;
  std::memcpy(&out, &bytes[static_cast<size_t>(i * 4)], 4);
  return out;
}

// Runs the product and compares it with sums in f64 of products of rounded factors. What is wrong,
// or nothing.
std::string CheckedTf32(const Tf32Product& p, const std::vector<Opt>* maybe_opts,
                        const Target& target, bool hard = false) {
  UOpContext ctx;
  codegen::Options options;
  options.opts = maybe_opts;
  const auto lowered = codegen::Lower(ctx, Tf32Kernel(ctx, p), target, options);
  if (!lowered.ok()) return Cat("lower: ", StatusText(lowered.status()));
  tests::Memory memory = Tf32Memory(p, hard);
  const absl::Status run = tests::RunLowered(ctx, *lowered, target, memory, {});
  if (!run.ok()) return Cat("run: ", StatusText(run));
  double change = 0;
  for (int64_t r = 0; r < p.m; ++r) {
    for (int64_t c = 0; c < p.n; ++c) {
      double want = 0, size = 0, exact = 0;
      for (int64_t k = 0; k < p.k; ++k) {
        const float x = FloatAt(memory[1], p.transpose_a ? k * p.m + r : r * p.k + k),
                    y = FloatAt(memory[2], p.transpose_b ? c * p.k + k : k * p.n + c);
        const double product = double{NearestTf32(x)} * double{NearestTf32(y)};
        want += product;
        size += std::abs(product);
        exact += double{x} * double{y};
      }
      const double got = FloatAt(memory[0], r * p.n + c);
      if (std::isnan(want) && std::isnan(got)) continue;
      if (std::isinf(static_cast<float>(want)) ? got == want || std::isinf(got)
                                               : std::abs(got - want) <= 1e-6 * size) {
        // Rounded to nearest, a factor is off by 2^-11 of itself at most.
        const double bound = 2.001 * 0x1p-11 * size + 1e-6 * size;
        if (!hard && std::abs(got - exact) > bound)
          return Cat("result ", r, ", ", c, " is off by ", got - exact);
        change = std::max(change, std::abs(got - exact) / size);
        continue;
      }
      return Cat("result ", r, ", ", c, " is ", got, ", not ", want);
    }
  }
  return hard || p.stored == Dtype::TF32 || change > 1e-5 ? "" : "nothing is rounded";
}

int64_t LinesOf(UOp linear, Op op) {
  return std::ranges::count_if(linear.srcs(), [&](UOp u) { return u.Is(op); });
}

const Opt kTile{OptKind::kTensorCore, 2, 0};

TEST(Tf32Test, FactorsAreRoundedInRegisters) {
  const std::vector<std::vector<Opt>> all = {{kTile, {OptKind::kUpcast, 0, 2}},
                                             {kTile,
                                              {OptKind::kUpcast, 1, 2},
                                              {OptKind::kLocal, 0, 2},
                                              {OptKind::kBlock, 2, 1},
                                              {OptKind::kPack, 0, 0},
                                              {OptKind::kPack, 1, 0},
                                              {OptKind::kPipeline, 2, 3}}};
  for (const bool converts : {true, false}) {
    const Target target = Tf32Target(false, converts);
    for (const std::vector<Opt>& opts : all) {
      for (const bool hard : {false, true}) {
        EXPECT_EQ(CheckedTf32({33, 24, 48, false, true}, &opts, target, hard), "") << converts;
        EXPECT_EQ(CheckedTf32({32, 23, 45, true, false}, &opts, target, hard), "") << converts;
      }
      EXPECT_EQ(CheckedTf32({33, 24, 48, false, true, Dtype::TF32}, &opts, target), "");
    }
  }
}

TEST(Tf32Test, GroupsOfWarpsMultiply) {
  const std::vector<Opt> opts = {kTile, {OptKind::kUnroll, 2, 4}, {OptKind::kBlock, 2, 1}};
  for (const bool converts : {true, false}) {
    const Target target = Tf32Target(true, converts);
    for (const bool hard : {false, true}) {
      EXPECT_EQ(CheckedTf32({70, 37, 64, false, true}, &opts, target, hard), "") << converts;
      EXPECT_EQ(CheckedTf32({70, 37, 45, true, false}, &opts, target, hard), "") << converts;
    }
    EXPECT_EQ(CheckedTf32({64, 64, 64, true, false, Dtype::TF32}, &opts, target), "") << converts;
  }
}

// Copies run on their own: f32 values are copied as they lie, and rounded by the lanes that
// multiply them.
TEST(Tf32Test, CopiesKeepAllBits) {
  const std::vector<Opt> opts = {kTile,
                                 {OptKind::kUnroll, 2, 4},
                                 {OptKind::kBlock, 2, 1},
                                 {OptKind::kPack, 0, 0},
                                 {OptKind::kPack, 1, 0},
                                 {OptKind::kPipeline, 2, 3}};
  UOpContext ctx;
  codegen::Options options;
  options.opts = &opts;
  const auto lowered = codegen::Lower(ctx, Tf32Kernel(ctx, {64, 64, 128, false, true}),
                                      Tf32Target(false, true), options);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_GT(LinesOf(lowered->linear, Op::ASYNC_COPY), 0);
  EXPECT_GT(LinesOf(lowered->linear, Op::MATRIX_LOAD), 0);
  EXPECT_GT(std::ranges::count_if(lowered->linear.srcs(),
                                  [](UOp u) { return u.Is(Op::CAST) && u.dtype() == Dtype::TF32; }),
            0);
}

// What the heuristic chooses for NVIDIA's chips: instructions for tf32 only where the graph has it.
TEST(Tf32Test, TheHeuristicChoosesInstructions) {
  const auto multiplies = [](std::string_view arch, const Tf32Product& p) -> std::string {
    UOpContext ctx;
    const auto lowered = codegen::Lower(ctx, Tf32Kernel(ctx, p), *GpuTarget(arch), {});
    EXPECT_TRUE(lowered.ok()) << lowered.status();
    if (!lowered.ok()) return "";
    if (LinesOf(lowered->linear, Op::GROUP_MMA) > 0)
      return LinesOf(lowered->linear, Op::BULK_COPY) > 0 ? "group, boxes" : "group";
    if (LinesOf(lowered->linear, Op::MMA) == 0) return "lanes";
    return LinesOf(lowered->linear, Op::ASYNC_COPY) > 0 ? "warp, copies" : "warp";
  };
  const Tf32Product large{4096, 4096, 4096, false, true};
  Tf32Product stored = large, exact = large;
  stored.stored = Dtype::TF32;
  exact.rounds = false;
  EXPECT_EQ(multiplies("sm_75", large), "lanes");
  for (const char* arch : {"sm_80", "sm_90", "sm_120"}) {
    EXPECT_EQ(multiplies(arch, large), "warp, copies") << arch;
    EXPECT_EQ(multiplies(arch, exact), "lanes") << arch;
  }
  // An instruction that reads shared memory needs factors that lie there rounded.
  EXPECT_EQ(multiplies("sm_90a", large), "warp, copies");
  EXPECT_EQ(multiplies("sm_90a", stored), "group, boxes");
  EXPECT_EQ(multiplies("sm_90a", exact), "lanes");
}

}  // namespace
}  // namespace uopd
