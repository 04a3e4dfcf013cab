// SPDX-License-Identifier: MIT
// Structure of PTX: what stands in it and what does not. gpu_compile_test.cc assembles it.
#include "core/render/formats.h"

#include "core/base/target/gpu_targets.h"
#include "core/base/text.h"
#include "core/ir/io/print.h"
#include "core/ir/verify/spec.h"
#include "core/render/ptx/matrix.h"
#include "core/render/ptx/types.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace uopd {
namespace {

using testing::HasSubstr;
using testing::Not;

// Renders a linear kernel, the last node of the text.
std::string PtxOf(std::string_view text) {
  ir::UOpContext ctx;
  const ir::UOp linear = ir::Parse(ctx, text).value();
  const absl::Status valid = ir::Verify(ctx, linear, ir::Level::kLinear);
  EXPECT_TRUE(valid.ok()) << valid;
  const Target target = *GpuTarget("sm_90");
  const auto ptx = render::RenderPtx({ctx, linear, "k", {}, target, 2});
  EXPECT_TRUE(ptx.ok()) << ptx.status();
  return ptx.value_or("");
}

// b0[i] = b1[7 - i], through an array of the thread.
constexpr std::string_view kReversed = R"(
%0 = CONST<index> {8}
%1 = STACK<index> %0
%2 = PARAM<f32> %1 {0, GLOBAL}
%3 = PARAM<f32> %1 {1, GLOBAL}
%4 = BUFFER<f32> %1 {0, REG}
%5 = CONST<i32> {8}
%6 = RANGE<i32> %5 {0, LOOP}
%7 = INDEX<f32> %3, %6
%8 = LOAD<f32> %7
%9 = INDEX<f32> %4, %6
%10 = STORE %9, %8
%11 = END %10, %6
%12 = AFTER<f32> %4, %11
%13 = RANGE<i32> %5 {1, LOOP}
%14 = NEG<i32> %13
%15 = CONST<i32> {7}
%16 = ADD<i32> %14, %15
%17 = INDEX<f32> %12, %16
%18 = LOAD<f32> %17
%19 = INDEX<f32> %2, %13
%20 = STORE %19, %18
%21 = END %20, %13
%22 = LINEAR %2, %3, %4, %6, %7, %8, %9, %10, %11, %12, %13, %14, %16, %17, %18, %19, %20, %21
)";

TEST(PtxTest, AnArrayReadAtAnyIndexLiesInLocalMemory) {
  const std::string ptx = PtxOf(kReversed);
  EXPECT_THAT(ptx, HasSubstr(".local .align 16 .b8 acc0[32];"));
  EXPECT_THAT(ptx, HasSubstr("st.local.f32 ["));
  // The index 7 - i is the address of -i, 28 bytes further.
  EXPECT_THAT(ptx, testing::ContainsRegex("ld.local.f32 %r[0-9]+, .%q[0-9]+.28];"));
}

TEST(PtxTest, OnlyBuffersThatAreNeverStoredAreReadOnly) {
  const std::string ptx = PtxOf(kReversed);
  EXPECT_THAT(ptx, HasSubstr("ld.global.nc.f32"));
  EXPECT_THAT(PtxOf(R"(
%0 = CONST<index> {4}
%1 = STACK<index> %0
%2 = PARAM<f32> %1 {0, GLOBAL}
%3 = CONST<i32> {2}
%4 = INDEX<f32> %2, %3
%5 = LOAD<f32> %4
%6 = NEG<f32> %5
%7 = STORE %4, %6
%8 = LINEAR %2, %4, %5, %6, %7
)"),
              Not(HasSubstr(".nc")));
}

// An accumulator of bools; the threads of a block wait for each other if `barrier`.
std::string BoolSum(bool barrier) {
  return Cat(R"(
%0 = CONST<index> {1}
%1 = STACK<index> %0
%2 = CONST<index> {100}
%3 = STACK<index> %2
%4 = PARAM<bool> %1 {0, GLOBAL}
%5 = PARAM<bool> %3 {1, GLOBAL}
%6 = BUFFER<bool> %1 {0, REG}
%7 = CONST<i32> {0}
%8 = INDEX<bool> %6, %7
%9 = CONST<bool> {false}
%10 = STORE %8, %9
%11 = CONST<i32> {100}
%12 = RANGE<i32> %11 {0, REDUCE} #1
%13 = INDEX<bool> %5, %12
%14 = LOAD<bool> %13
%15 = LOAD<bool> %8
%16 = OR<bool> %14, %15
%17 = STORE %8, %16
%18 = END %17, %12
%19 = AFTER<bool> %6, %18
%20 = INDEX<bool> %19, %7
%21 = LOAD<bool> %20
%22 = INDEX<bool> %4, %7
%23 = STORE %22, %21
%24 = BARRIER %23
%25 = LINEAR %4, %5, %6, %8, %10, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23)",
             barrier ? ", %24\n" : "\n");
}

TEST(PtxTest, AnAccumulatorIsARegister) {
  const std::string ptx = PtxOf(BoolSum(false));
  EXPECT_THAT(ptx, Not(HasSubstr(".local")));
  EXPECT_THAT(ptx, HasSubstr("or.pred"));
  // A bool is a byte in memory.
  EXPECT_THAT(ptx, HasSubstr("ld.global.nc.u8"));
  EXPECT_THAT(ptx, HasSubstr("st.global.u8"));
}

TEST(PtxTest, ThreadsThatWaitForEachOtherPollTogether) {
  EXPECT_THAT(PtxOf(BoolSum(true)), HasSubstr("bar.red.or.pred"));
  const std::string alone = PtxOf(BoolSum(false));
  EXPECT_THAT(alone, HasSubstr("ld.volatile.global.u32"));
  EXPECT_THAT(alone, Not(HasSubstr("bar.")));
}

// The fields that the PTX ISA gives, in pieces of 16 bytes: leading offset from bit 16 on, stride
// from bit 32 on, swizzle in bits 62 and 63.
TEST(PtxTest, DescribesMatricesInSharedMemory) {
  const auto bits = [](uint64_t lead, uint64_t stride, uint64_t swizzle) {
    return lead << 16 | stride << 32 | swizzle << 62;
  };
  // Along the sum: eight rows of a span are 1024, 512 or 256 bytes.
  EXPECT_EQ(render::PtxDescriptor({128, true, 0, 1024}), bits(1, 64, 1));
  EXPECT_EQ(render::PtxDescriptor({64, true, 0, 512}), bits(1, 32, 2));
  EXPECT_EQ(render::PtxDescriptor({32, true, 0, 256}), bits(1, 16, 3));
  // Across it: spans of 64 steps lie 8192 bytes apart.
  EXPECT_EQ(render::PtxDescriptor({128, false, 8192, 1024}), bits(512, 64, 1));
}

TEST(PtxTest, TheVersionIsTheOldestThatHasTheArchitecture) {
  EXPECT_EQ(render::PtxVersion("sm_75", false), "6.3");
  EXPECT_EQ(render::PtxVersion("sm_80", false), "7.0");
  EXPECT_EQ(render::PtxVersion("sm_90", false), "7.8");
  EXPECT_EQ(render::PtxVersion("sm_90", true), "8.4");
  EXPECT_EQ(render::PtxVersion("sm_90a", false), "8.0");
  EXPECT_EQ(render::PtxVersion("sm_100", true), "8.6");
  EXPECT_EQ(render::PtxVersion("sm_120", false), "8.7");
}

TEST(PtxTest, ConstantsAreExact) {
  ir::UOpContext ctx;
  using ir::Dtype;
  EXPECT_EQ(render::PtxConstant(ctx.Float(Dtype::F32, -0.5)), "0fBF000000");
  EXPECT_EQ(render::PtxConstant(ctx.Float(Dtype::F64, 1)), "0d3FF0000000000000");
  EXPECT_EQ(render::PtxConstant(ctx.Float(Dtype::F16, 1)), "15360");
  EXPECT_EQ(render::PtxConstant(ctx.Int(Dtype::U32, 4294967295)), "-1");
  EXPECT_EQ(render::PtxConstant(ctx.Int(Dtype::I64, INT64_MIN)), "0x8000000000000000");
}

}  // namespace
}  // namespace uopd
