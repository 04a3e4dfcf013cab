// SPDX-License-Identifier: MIT
#include "core/ir/verify/spec.h"
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
using tests::WideTarget;

// The second store needs what the first one overwrites, with loops, as a vector, and without.
TEST(LowerTest, GroupsLoadBeforeTheyStore) {
  for (const int64_t n : {1, 4, 40}) {
    ir::UOpContext ctx;
    KernelBuilder b(ctx);
    const UOp state = b.Buffer(0, Dtype::I32, n), seen = b.Buffer(1, Dtype::I32, n);
    const UOp i = n == 1 ? ctx.Idx(0) : b.Loop(n);
    const UOp stores[] = {
        ir::Store(ctx, ir::Index(ctx, state, i), ctx.Int(Dtype::I32, 7)),
        ir::Store(ctx, ir::Index(ctx, seen, i), ir::Add(ctx, b.Load(state, i), b.Load(state, i)))};
    UOp group = ctx.Make(Op::GROUP, Dtype::Void, stores);
    if (n > 1) group = ir::End(ctx, group, std::span(&i, 1));
    const UOp k = b.Kernel({group});
    const Memory memory = {SampleBuffer(Dtype::I32, n, 1, true),
                           SampleBuffer(Dtype::I32, n, 2, true)};
    const std::vector<Opt> none, whole = {{OptKind::kVector, 0, 4}},
                                 copies = {{OptKind::kUpcast, 0, 0}};
    for (const auto* opts : {&none, &whole, &copies}) {
      if (n == 1 && !opts->empty()) continue;
      CheckOptions check;
      check.target = WideTarget(), check.options.opts = opts;
      EXPECT_EQ(CheckKernel(ctx, k, memory, check), "") << n << " " << opts->size();
    }
  }
}

// A device without f64, as most integrated GPUs are: said by name, before any text is made.
TEST(LowerTest, ADtypeThatTheTargetLacksIsUnimplemented) {
  for (const Dtype dtype : {Dtype::F32, Dtype::F64}) {
    ir::UOpContext ctx;
    KernelBuilder b(ctx);
    const UOp to = b.Buffer(0, Dtype::F32, 8), from = b.Buffer(1, dtype, 8), i = b.Loop(8);
    const UOp store =
        ir::Store(ctx, ir::Index(ctx, to, i), ir::Cast(ctx, b.Load(from, i), Dtype::F32));
    const UOp k = b.Kernel({ir::End(ctx, store, std::span(&i, 1))});
    Target target;
    target.kind = "small";
    target.dtypes = {DtypeNumber::Bool, DtypeNumber::I32, DtypeNumber::I64, DtypeNumber::F32};
    const auto lowered = codegen::Lower(ctx, k, target, {});
    if (dtype == Dtype::F32) {
      EXPECT_TRUE(lowered.ok()) << lowered.status();
      continue;
    }
    EXPECT_EQ(lowered.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(StatusText(lowered.status()),
                testing::HasSubstr("devices of kind small have no f64"));
  }
}

// What a tile multiplies by one element of a row comes in one place. Otherwise the elements of all
// rows of the tile are in registers at the same time, and the sums do not fit beside them.
TEST(LowerTest, ATileUsesAnElementOfARowInOnePlace) {
  ir::UOpContext ctx;
  const UOp kernel = tests::MatmulKernel(ctx, 30, 64, 20, false, false);
  const std::vector<Opt> opts = {{OptKind::kVector, 1, 16}, {OptKind::kUpcast, 1, 2},
                                 {OptKind::kUpcast, 0, 13}, {OptKind::kUnroll, 2, 2},
                                 {OptKind::kThread, 1, 2},  {OptKind::kPack, 1, 0}};
  codegen::Options options;
  options.opts = &opts;
  const auto lowered = codegen::Lower(ctx, kernel, WideTarget(), options);
  ASSERT_TRUE(lowered.ok()) << StatusText(lowered.status());
  std::vector<uint32_t> elements;  // of rows, by use
  for (UOp line : lowered->linear.srcs()) {
    if (!line.Is(Op::MULACC)) continue;
    for (UOp s : line.srcs().first(2)) {
      if (s.Is(Op::LOAD) && ir::MaybeBaseOf(s.src(0).src(0)).slot() == 1)
        elements.push_back(s.id());
    }
  }
  ASSERT_EQ(elements.size(), 2u * 13 * 2);
  for (size_t i = 0; i < elements.size(); i += 2) EXPECT_EQ(elements[i], elements[i + 1]) << i;
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

// Row sums of 10 columns for 2 n + 1 rows: as many threads as the launch has rows.
TEST(LowerTest, ALoopOfSymbolicSizeMayBeThreads) {
  ir::UOpContext ctx;
  KernelBuilder b(ctx);
  const UOp n = ir::Variable(ctx, "n", 0, 7);
  const UOp rows = ir::Add(ctx, ir::Mul(ctx, n, ctx.Idx(2)), ctx.Idx(1));
  const UOp i = b.Loop(rows), j = b.Reduced(10);
  const UOp x = b.Load(b.Buffer(1, Dtype::F32, 150), b.At(i, 10, j));
  const UOp k = b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, 15), i,
                                       ir::ReduceRanges(ctx, Op::ADD, x, std::span(&j, 1)), {i})});
  const Memory memory = {SampleBuffer(Dtype::F32, 15, 1, true),
                         SampleBuffer(Dtype::F32, 150, 2, true)};
  const std::vector<std::vector<Opt>> cases = {
      {{OptKind::kThread, 0, 0}},
      {{OptKind::kThread, 0, 0}, {OptKind::kUpcast, 0, 4}},
      {{OptKind::kVector, 0, 4}, {OptKind::kThread, 0, 0}},
      {{OptKind::kThread, 0, 0}, {OptKind::kUnroll, 1, 0}},
  };
  for (const auto& opts : cases) {
    for (const int64_t value : {0, 1, 5, 7}) {
      for (auto language : {CompiledText::kC, CompiledText::kLlvmIr}) {
        CheckOptions check;
        check.target = WideTarget(), check.options.opts = &opts, check.language = language;
        check.tolerance = 1e-6, check.variables = {{"n", value}};
        EXPECT_EQ(CheckKernel(ctx, k, memory, check), "") << Text(opts.back()) << " " << value;
      }
    }
    codegen::Options options;
    options.opts = &opts;
    const auto lowered = codegen::Lower(ctx, k, WideTarget(), options);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    const int64_t at_most = 15, five = 5;
    EXPECT_EQ(lowered->launch.grid[0].Evaluate(std::span(&five, 1)),
              opts.size() > 1 && opts[0].kind == OptKind::kVector   ? 3
              : opts.size() > 1 && opts[1].kind == OptKind::kUpcast ? 3
                                                                    : 11);
    EXPECT_LE(lowered->estimate_ns, 1e6 * at_most);
  }
  // Of a symbolic loop, all of it or nothing; once; and no reduction.
  for (const std::vector<Opt>& bad :
       std::vector<std::vector<Opt>>{{{OptKind::kThread, 0, 2}},
                                     {{OptKind::kThread, 0, 0}, {OptKind::kThread, 0, 0}},
                                     {{OptKind::kThread, 1, 0}}}) {
    codegen::Options options;
    options.opts = &bad;
    EXPECT_TRUE(absl::IsInvalidArgument(codegen::Lower(ctx, k, WideTarget(), options).status()));
  }
}

// What is left of a kernel whose loops have no iterations.
TEST(LowerTest, AKernelThatStoresNothingIsAnEmptyProgram) {
  ir::UOpContext ctx;
  const ir::UOp range = ir::Range(ctx, ctx.Idx(0), 0, ir::AxisType::LOOP);
  const ir::UOp nothing = ctx.Make(ir::Op::GROUP, ir::Dtype::Void, {});
  const ir::UOp end = ir::End(ctx, nothing, std::span(&range, 1));
  const ir::UOp sink = ir::Sink(ctx, std::span(&end, 1));
  const auto lowered = codegen::Lower(ctx, sink, {}, {});
  ASSERT_TRUE(lowered.ok()) << StatusText(lowered.status());
  EXPECT_TRUE(lowered->buffers.empty());
}

}  // namespace
}  // namespace uopd
