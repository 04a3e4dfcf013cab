// SPDX-License-Identifier: MIT
// Structure of rendered text: what stands in it and what does not.
#include "core/render/formats.h"
#include "core/base/text.h"
#include "core/ir/io/print.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/kernel_check.h"

namespace uopd {
namespace {

using codegen::Opt;
using codegen::OptKind;
using testing::HasSubstr;
using testing::Not;

// c[i] = sum over k of a[8 i + k]
constexpr std::string_view kRowSums = R"(
%0 = CONST<index> {5}
%1 = STACK<index> %0
%2 = PARAM<f32> %1 {0, GLOBAL}
%3 = CONST<index> {40}
%4 = STACK<index> %3
%5 = PARAM<f32> %4 {1, GLOBAL}
%6 = RANGE<index> %0 {0, LOOP}
%7 = CONST<index> {8}
%8 = RANGE<index> %7 {1, REDUCE}
%9 = MUL<index> %6, %7
%10 = ADD<index> %9, %8
%11 = INDEX<f32> %5, %10
%12 = LOAD<f32> %11
%13 = REDUCE<f32> %12, %8 {ADD}
%14 = INDEX<f32> %2, %6
%15 = STORE %14, %13
%16 = END %15, %6
%17 = SINK %16 {"sums"}
)";

struct Rendered {
  std::string c, llvm, linear, name;
};
Rendered Render(ir::UOpContext& ctx, std::string_view kernel, const std::vector<Opt>& opts) {
  const ir::UOp sink = ir::Parse(ctx, kernel).value();
  codegen::Options options;
  options.opts = &opts;
  Target target;
  target.threads = 5;
  auto k = codegen::Lower(ctx, sink, target, options);
  EXPECT_TRUE(k.ok()) << k.status();
  Rendered out;
  out.linear = ir::Print(ctx, k->linear), out.name = k->name;
  out.c = render::RenderC(ctx, k->linear, k->name, k->variables).value();
  out.llvm = render::RenderLlvmIr(ctx, k->linear, k->name, k->variables).value();
  return out;
}

TEST(RenderTest, ScalarLoopsAndAccumulator) {
  ir::UOpContext ctx;
  const Rendered r = Render(ctx, kRowSums, {});
  EXPECT_THAT(r.c, HasSubstr("for (int64_t r0 = 0; r0 < 5ll; ++r0) {"));
  EXPECT_THAT(r.c, HasSubstr("for (int64_t r1 = 0; r1 < 8ll; ++r1) {"));
  EXPECT_THAT(r.c, HasSubstr("float acc0[1];"));
  EXPECT_THAT(r.llvm,
              HasSubstr("define void @" + r.name + "(ptr %buffers, ptr %vars, i64 %thread)"));
  EXPECT_THAT(r.llvm, HasSubstr("ptr noalias %b0, ptr noalias %b1"));
  EXPECT_THAT(r.llvm, HasSubstr("alloca float"));
  EXPECT_THAT(r.llvm, Not(HasSubstr(" x float>")));
}

TEST(RenderTest, VectorsAndThreads) {
  ir::UOpContext ctx;
  const Rendered r = Render(ctx, kRowSums, {{OptKind::kVector, 1, 8}, {OptKind::kThread, 0, 5}});
  EXPECT_THAT(r.llvm, HasSubstr("load <8 x float>, ptr %v"));
  EXPECT_THAT(r.llvm, HasSubstr("align 4"));
  EXPECT_THAT(r.llvm, HasSubstr("shufflevector <8 x float>"));  // lanes are joined by halves
  EXPECT_THAT(r.llvm, Not(HasSubstr("phi")));                   // no loop is left
  EXPECT_THAT(r.linear, HasSubstr("SPECIAL<i64>"));
}

TEST(RenderTest, GatedLanesAreMasked) {
  ir::UOpContext ctx;
  const Rendered r = Render(ctx, kRowSums, {{OptKind::kVector, 1, 16}});
  EXPECT_THAT(r.llvm, HasSubstr("@llvm.masked.load.v16f32.p0"));
  EXPECT_THAT(r.llvm, HasSubstr("\"prefer-vector-width\"=\"512\""));
}

// The maximum over a long loop of a value that no rule and no compiler folds: sin(i). A sum would
// be one over blocks.
std::string LongMaximum(int64_t n) {
  return Cat("%0 = CONST<index> {1}\n%1 = STACK<index> %0\n%2 = PARAM<f64> %1 {0, GLOBAL}\n",
             "%3 = CONST<index> {", n, "}\n", R"(%4 = RANGE<index> %3 {0, REDUCE}
%5 = CAST<f64> %4
%6 = SIN<f64> %5
%7 = REDUCE<f64> %6, %4 {MAX}
%8 = CONST<index> {0}
%9 = INDEX<f64> %2, %8
%10 = STORE %9, %7
%11 = SINK %10 {"long"}
)");
}

// Windows of 3 over 6 positions of 8 channels, with padding: the gate depends on the position only.
// Elements with the same gate at constant distances share the choice between memory and zeros, and
// the channels are added to what was chosen, so LLVM moves the choice out of their loop.
TEST(RenderTest, GatedNeighboursShareOneChoice) {
  ir::UOpContext ctx;
  tests::KernelBuilder b(ctx);
  const ir::UOp i = b.Loop(6), w = b.Reduced(3), c = b.Reduced(8);
  const ir::UOp at = ir::Add(ctx, ir::Add(ctx, i, w), ctx.Idx(-1));
  const ir::UOp gate = ir::And(ctx, ir::Lt(ctx, ctx.Idx(-1), at), ir::Lt(ctx, at, ctx.Idx(6)));
  const ir::UOp x = b.Load(b.Buffer(1, ir::Dtype::F32, 48), b.At(at, 8, c), gate);
  const ir::UOp sum = ir::ReduceRanges(ctx, ir::Op::ADD, x, std::array<ir::UOp, 2>{w, c});
  const ir::UOp kernel = b.Kernel({b.StoreLoops(b.Buffer(0, ir::Dtype::F32, 6), i, sum, {i})});
  const Rendered k = Render(ctx, ir::Print(ctx, kernel), {{OptKind::kUnroll, 2, 4}});
  size_t choices = 0;
  for (size_t from = 0; (from = k.llvm.find(", ptr @zeros", from)) != std::string::npos; ++from)
    ++choices;
  EXPECT_EQ(choices, 1u) << k.llvm;
  // As many zeros as there are channels.
  EXPECT_THAT(k.llvm, HasSubstr("constant [32 x i8]"));
  const Rendered v = Render(ctx, ir::Print(ctx, kernel), {{OptKind::kVector, 2, 8}});
  EXPECT_THAT(v.llvm, HasSubstr(", ptr @zeros"));
  EXPECT_THAT(v.llvm, HasSubstr("constant [32 x i8]"));  // a vector reads all of its lanes
}

TEST(RenderTest, LongLoopsPollInChunks) {
  for (const int64_t n : {int64_t{1} << 45, (int64_t{1} << 45) + 1}) {
    ir::UOpContext ctx;
    const Rendered r = Render(ctx, LongMaximum(n), {});
    EXPECT_THAT(r.c, HasSubstr("c0 += 512) {\n    if (*(const volatile int32_t *)buffers[-1]"));
    EXPECT_THAT(r.c, HasSubstr("- c0 > 512 ? c0 + 512 : "));
    EXPECT_THAT(r.llvm, HasSubstr("getelementptr ptr, ptr %buffers, i64 -1"));
    EXPECT_THAT(r.llvm, HasSubstr("load atomic i32, ptr %stop monotonic"));
    EXPECT_THAT(r.llvm, HasSubstr("label %stopped"));
    // A last chunk of another length only where there is one.
    if (n % 512 == 0) {
      EXPECT_THAT(r.llvm, Not(HasSubstr("%count0")));
    } else {
      EXPECT_THAT(r.llvm, HasSubstr("%count0"));
    }
  }
}

TEST(RenderTest, ShortKernelsDoNotPoll) {
  ir::UOpContext ctx;
  const Rendered r = Render(ctx, LongMaximum(1000), {});
  EXPECT_THAT(r.c, Not(HasSubstr("buffers[-1]")));
  EXPECT_THAT(r.llvm, Not(HasSubstr("stop")));
}

TEST(RenderTest, SameTextWhateverTheContextHolds) {
  ir::UOpContext clean, used;
  tests::MatmulKernel(used, 7, 9, 11, false, true);
  const std::vector<Opt> opts = {{OptKind::kVector, 1, 4}, {OptKind::kUpcast, 0, 5}};
  const Rendered a = Render(clean, kRowSums, opts), b = Render(used, kRowSums, opts);
  EXPECT_EQ(a.c, b.c);
  EXPECT_EQ(a.llvm, b.llvm);
  EXPECT_EQ(a.name, b.name);
}

TEST(RenderTest, WhatHasNoRenderingIsNamed) {
  ir::UOpContext ctx;
  const ir::UOp linear =
      ctx.Make(ir::Op::LINEAR, ir::Dtype::Void, {ctx.Make(ir::Op::BARRIER, ir::Dtype::Void, {})});
  for (const auto& text :
       {render::RenderC(ctx, linear, "k", {}), render::RenderLlvmIr(ctx, linear, "k", {})}) {
    ASSERT_FALSE(text.ok());
    EXPECT_EQ(text.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(StatusText(text.status()), HasSubstr("BARRIER"));
  }
}

}  // namespace
}  // namespace uopd
