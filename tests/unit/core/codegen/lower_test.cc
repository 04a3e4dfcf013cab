// SPDX-License-Identifier: MIT
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/kernel_check.h"

namespace uopd {
namespace {

using codegen::Opt;
using codegen::OptKind;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using tests::CheckKernel;
using tests::CheckOptions;
using tests::CompiledText;
using tests::KernelBuilder;
using tests::Memory;
using tests::SampleBuffer;

codegen::Target WideTarget() {
  codegen::Target t;
  t.vector_bytes = 64, t.vector_registers = 32, t.threads = 2;
  return t;
}

TEST(LowerTest, MatmulWithEveryKindOfOpt) {
  ir::UOpContext ctx;
  const UOp k = tests::MatmulKernel(ctx, 12, 40, 20, false, false);
  const Memory memory = {SampleBuffer(Dtype::F32, 12 * 40, 1, true),
                         SampleBuffer(Dtype::F32, 12 * 20, 2, true),
                         SampleBuffer(Dtype::F32, 20 * 40, 3, true)};
  const std::vector<std::vector<Opt>> cases = {
      {},
      {{OptKind::kVector, 1, 8}},
      {{OptKind::kVector, 1, 16}},  // 40 = 2.5 * 16
      {{OptKind::kVector, 1, 8},
       {OptKind::kUpcast, 0, 4},
       {OptKind::kUnroll, 2, 4},
       {OptKind::kThread, 0, 1}},
      {{OptKind::kVector, 1, 8},
       {OptKind::kUpcast, 1, 2},
       {OptKind::kUpcast, 0, 5},
       {OptKind::kUnroll, 2, 3}},
      {{OptKind::kVector, 2, 8}},
      {{OptKind::kVector, 2, 4}, {OptKind::kUpcast, 0, 2}, {OptKind::kUpcast, 1, 2}},
      {{OptKind::kUnroll, 2, 0}},
      {{OptKind::kThread, 0, 2}, {OptKind::kUpcast, 0, 3}},
      {{OptKind::kVector, 0, 4}},
  };
  for (const auto& opts : cases) {
    for (auto language : {CompiledText::kC, CompiledText::kLlvmIr}) {
      CheckOptions check;
      check.target = WideTarget(), check.options.opts = &opts, check.language = language,
      check.tolerance = 1e-6;
      std::string name;
      for (const Opt& o : opts) name += Text(o) + " ";
      EXPECT_EQ(CheckKernel(ctx, k, memory, check), "") << name;
    }
  }
}

}  // namespace
}  // namespace uopd
