// SPDX-License-Identifier: MIT
// The opt STREAM: stores around the caches.
#include <algorithm>

#include "core/codegen/cpu/passes/order_loops.h"
#include "core/codegen/opts/choose/heuristic.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/vectors/vectorise.h"
#include "core/render/formats.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/kernel_check.h"

namespace uopd {
namespace {

using codegen::Opt;
using codegen::OptKind;
using ir::Dtype;
using ir::UOp;
using ir::UOpContext;
using ::testing::HasSubstr;
using ::testing::Not;
using tests::KernelBuilder;

// out (rows x columns) = -in.
UOp Negation(UOpContext& ctx, int64_t rows, int64_t columns, Dtype dtype = Dtype::F32) {
  KernelBuilder b(ctx);
  const int64_t n = rows * columns;
  const UOp i = b.Loop(rows), j = b.Loop(columns), at = b.At(i, columns, j);
  const UOp x = b.Load(b.Buffer(1, dtype, n), at);
  return b.Kernel(
      {b.StoreLoops(b.Buffer(0, dtype, n), at, ir::Alu(ctx, ir::Op::NEG, {x}), {i, j})});
}

std::string TextOfStreaming(UOpContext& ctx, UOp sink, const std::vector<Opt>& opts) {
  codegen::Options options;
  options.opts = &opts;
  const auto lowered = codegen::Lower(ctx, sink, tests::WideTarget(), options);
  if (!lowered.ok()) return StatusText(lowered.status());
  const auto text = render::RenderLlvmIr(ctx, lowered->linear, "k", lowered->variables);
  return text.ok() ? *text : StatusText(text.status());
}

TEST(StreamTest, WritesWholeVectorsAroundTheCaches) {
  UOpContext ctx;
  const std::vector<Opt> opts = {{OptKind::kVector, 1, 16}, {OptKind::kStream, 0, 0}};
  const std::string text = TextOfStreaming(ctx, Negation(ctx, 3, 64), opts);
  EXPECT_THAT(text, HasSubstr("align 64, !nontemporal !0"));
  EXPECT_THAT(text, HasSubstr("fence seq_cst"));
}

// A vector that is not at a multiple of its size is stored as without the opt.
TEST(StreamTest, StoresUnalignedVectorsAsUsual) {
  UOpContext ctx;
  const std::vector<Opt> opts = {{OptKind::kVector, 1, 16}, {OptKind::kStream, 0, 0}};
  for (const int64_t columns : {40, 72}) {
    const std::string text = TextOfStreaming(ctx, Negation(ctx, 4, columns), opts);
    EXPECT_THAT(text, HasSubstr("store <16 x float>")) << columns;
    EXPECT_THAT(text, Not(HasSubstr("nontemporal"))) << columns;
  }
  EXPECT_THAT(TextOfStreaming(ctx, Negation(ctx, 4, 72),
                              {{OptKind::kVector, 1, 8}, {OptKind::kStream, 0, 0}}),
              HasSubstr("align 32, !nontemporal !0"));
}

TEST(StreamTest, KeepsResults) {
  for (const Dtype dtype : {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16, Dtype::I8}) {
    for (const int64_t columns : {64, 24, 17}) {
      for (const int64_t lanes : {1, 8, 16}) {
        UOpContext ctx;
        const std::vector<Opt> opts = {{OptKind::kVector, 1, lanes}, {OptKind::kStream, 0, 0}};
        tests::CheckOptions check;
        check.target = tests::WideTarget();
        check.options.opts = &opts;
        check.language = tests::CompiledText::kLlvmIr;
        const tests::Memory memory = {tests::SampleBuffer(dtype, 5 * columns, 1, true),
                                      tests::SampleBuffer(dtype, 5 * columns, 2, false)};
        EXPECT_EQ(CheckKernel(ctx, Negation(ctx, 5, columns, dtype), memory, check), "")
            << ir::Name(dtype) << " " << columns << " " << lanes;
      }
    }
  }
}

TEST(StreamTest, RefusesWhatIsNoStore) {
  UOpContext ctx;
  const UOp sink = Negation(ctx, 4, 32);
  const Target target = tests::WideTarget();
  codegen::OptPlan plan(ctx, sink, target);
  const auto why = [&](const Opt& opt) { return StatusText(plan.Add(opt)); };
  EXPECT_THAT(why({OptKind::kStream, 1, 0}), HasSubstr("the kernel has 1 stores"));
  EXPECT_THAT(why({OptKind::kStream, 0, 2}), HasSubstr("STREAM has no amount"));
  EXPECT_TRUE(plan.Add({OptKind::kStream, 0, 0}).ok());
  EXPECT_THAT(why({OptKind::kStream, 0, 0}), HasSubstr("is streamed already"));
  EXPECT_EQ(plan.opts().size(), 1u);
}

// The heuristic streams results that the last cache cannot hold.
TEST(StreamTest, IsChosenForLargeResults) {
  UOpContext ctx;
  Target target = tests::WideTarget();
  target.caches = {{32 << 10, 1}, {1 << 20, 1}, {16 << 20, 2}};
  const auto streams = [&](int64_t rows) {
    const std::vector<Opt> opts = codegen::HeuristicOpts(ctx, Negation(ctx, rows, 1024), target);
    return std::find(opts.begin(), opts.end(), Opt{OptKind::kStream, 0, 0}) != opts.end();
  };
  EXPECT_FALSE(streams(4096));
  EXPECT_TRUE(streams(4097));
}

// out (i, j) = in (j, i): one of the two scatters. With stores around the caches it is the store.
TEST(StreamTest, OrdersLoopsForTheLoads) {
  UOpContext ctx;
  KernelBuilder b(ctx);
  const UOp i = b.Loop(96), j = b.Loop(64);
  const UOp x = b.Load(b.Buffer(1, Dtype::F32, 96 * 64), b.At(j, 96, i));
  const UOp sink =
      b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, 96 * 64), b.At(i, 64, j), x, {i, j})});
  const auto strides = [&](std::vector<Opt> opts) {
    auto kernel = codegen::ApplyOpts(ctx, sink, tests::WideTarget(), opts);
    EXPECT_TRUE(kernel.ok()) << StatusText(kernel.status());
    const UOp ordered = codegen::OrderLoops(ctx, *kernel, 1 << 20);
    UOp innermost;
    for (UOp r : codegen::Axes(ctx, ordered)) {
      if (r.axis_type() == ir::AxisType::LOOP) innermost = r;
    }
    return codegen::StrideAlong(ctx, codegen::Reads(ctx, ordered)[0].src(0).src(1), innermost);
  };
  const Opt lanes{OptKind::kVector, 1, 16}, copies{OptKind::kUpcast, 0, 16};
  EXPECT_EQ(strides({lanes, copies}), 16 * 96);
  EXPECT_EQ(strides({lanes, copies, {OptKind::kStream, 0, 0}}), 16);
}

}  // namespace
}  // namespace uopd
