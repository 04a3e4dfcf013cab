// SPDX-License-Identifier: MIT
// Maxima with a constant, which need fewer instructions than other maxima.
#include <algorithm>
#include <limits>

#include "core/base/target/gpu_targets.h"
#include "core/codegen/codegen.h"
#include "core/ir/build.h"
#include "gtest/gtest.h"
#include "tests/support/kernel_check.h"

namespace uopd {
namespace {

using codegen::Opt;
using codegen::OptKind;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using tests::KernelBuilder;
using tests::SampleBuffer;

// Zeros of both signs, NaN and infinities too: every bit is compared.
TEST(MaximumTest, OfAConstantEqualsTheInterpretersInEveryBit) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Dtype dtype : {Dtype::F32, Dtype::F64, Dtype::BF16}) {
    for (const double c :
         {0.0, -0.0, 6.0, -6.0, infinity, -infinity, std::numeric_limits<double>::quiet_NaN()}) {
      if (dtype != Dtype::F32 && c != 0 && c != 6) continue;
      for (const bool first : {false, true}) {
        ir::UOpContext ctx;
        KernelBuilder b(ctx);
        const UOp i = b.Loop(70), x = b.Load(b.Buffer(1, dtype, 70), i),
                  constant = ctx.Const(dtype, c);
        const UOp largest =
            first ? ir::Alu(ctx, Op::MAX, {constant, x}) : ir::Alu(ctx, Op::MAX, {x, constant});
        const UOp kernel = b.Kernel({b.StoreLoops(b.Buffer(0, dtype, 70), i, largest, {i})});
        tests::Memory memory = {SampleBuffer(dtype, 70, 1, true),
                                SampleBuffer(dtype, 70, 2, false)};
        // The first elements are +0 and -0.
        const auto size = static_cast<size_t>(ir::ByteSize(dtype));
        std::fill_n(memory[1].begin(), 2 * size, uint8_t{0});
        memory[1][2 * size - 1] = 0x80;
        for (const auto language : {tests::CompiledText::kC, tests::CompiledText::kLlvmIr}) {
          if (language == tests::CompiledText::kC && (dtype != Dtype::F32 || c != 0)) continue;
          for (const std::vector<Opt>& opts : {std::vector<Opt>{}, {{OptKind::kVector, 0, 8}}}) {
            tests::CheckOptions check;
            check.target = tests::WideTarget(), check.language = language;
            check.options.opts = &opts;
            EXPECT_EQ(tests::CheckKernel(ctx, kernel, memory, check), "") << c << " " << first;
          }
        }
      }
    }
  }
}

// Where the target has instructions for maxima, EXP2 and rounding to bf16, each of them is one
// line. NaN is kept.
TEST(MaximumTest, InstructionsOfTheTargetAreOneLine) {
  const Target target = *GpuTarget("sm_80");
  ir::UOpContext ctx;
  KernelBuilder b(ctx);
  const UOp i = b.Loop(70), x = b.Load(b.Buffer(1, Dtype::F32, 70), i),
            y = b.Load(b.Buffer(2, Dtype::F32, 70), i);
  const UOp value =
      ir::Cast(ctx, ir::Alu(ctx, Op::EXP2, {ir::Alu(ctx, Op::MAX, {x, y})}), Dtype::BF16);
  const UOp kernel = b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::BF16, 70), i, value, {i})});
  tests::CheckOptions check;
  check.target = target;
  const auto lowered = codegen::Lower(ctx, kernel, target, {});
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  const auto count = [&](auto is) { return std::ranges::count_if(lowered->linear.srcs(), is); };
  EXPECT_EQ(count([](UOp u) { return u.Is(Op::MAX); }), 1);
  EXPECT_EQ(count([](UOp u) { return u.Is(Op::EXP2); }), 1);
  EXPECT_EQ(count([](UOp u) { return u.Is(Op::CAST) && u.dtype() == Dtype::BF16; }), 1);
  EXPECT_EQ(count([](UOp u) {
              return u.Is({Op::WHERE, Op::CMPNE, Op::CMPLT}) && u.dtype() == Dtype::F32;
            }),
            0);
  const tests::Memory memory = {SampleBuffer(Dtype::BF16, 70, 1, true),
                                SampleBuffer(Dtype::F32, 70, 2, false),
                                SampleBuffer(Dtype::F32, 70, 3, false)};
  EXPECT_EQ(tests::CheckKernel(ctx, kernel, memory, check), "");
}

}  // namespace
}  // namespace uopd
