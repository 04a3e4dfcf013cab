// SPDX-License-Identifier: MIT
// Maxima with a constant, which need fewer instructions than other maxima.
#include <limits>

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

}  // namespace
}  // namespace uopd
