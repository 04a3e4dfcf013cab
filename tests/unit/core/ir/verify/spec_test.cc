// SPDX-License-Identifier: MIT
// What the verifier refuses, as text: each graph breaks one rule at its marked node.
#include "core/ir/verify/spec.h"

#include <gtest/gtest.h>
#include <time.h>

#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/io/print.h"

namespace uopd::ir {
namespace {

constexpr char kHead[] =
    "%0 = CONST<index> {4}\n%1 = CONST<index> {3}\n%2 = STACK<index> %0, %1\n%3 = PARAM<f32> %2 "
    "{0, GLOBAL}\n"
    "%4 = PARAM<i32> %2 {1, GLOBAL}\n%5 = CONST<f32> {1}\n%6 = CONST<index> {2}\n";

struct BadGraph {
  const char* tail;
  const char* message;
};

class SpecErrors : public ::testing::TestWithParam<BadGraph> {};

TEST_P(SpecErrors, AreFoundAndNamed) {
  UOpContext ctx;
  const auto root = Parse(ctx, std::string(kHead) + GetParam().tail);
  ASSERT_TRUE(root.ok()) << StatusText(root.status());
  const absl::Status s = Verify(ctx, *root, Level::kTensor);
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << StatusText(s);
  EXPECT_NE(StatusText(s).find(GetParam().message), std::string::npos) << StatusText(s);
  EXPECT_TRUE(GetNode(s)) << StatusText(s);
}

INSTANTIATE_TEST_SUITE_P(
    All, SpecErrors,
    ::testing::Values(
        BadGraph{"%7 = ADD<f32> %3, %4\n", "source 1 of ADD has dtype i32, not f32"},
        BadGraph{"%7 = CMPLT<f32> %3, %5\n", "gives bool, not f32"},
        BadGraph{"%7 = EXP2<i32> %4\n", "takes floats"},
        BadGraph{"%7 = AND<f32> %3, %3\n", "takes integers"},
        BadGraph{"%7 = WHERE<f32> %3, %3, %3\n", "not bool"},
        BadGraph{"%7 = STACK<index> %0, %6\n%8 = RESHAPE<f32> %3, %7\n",
                 "RESHAPE from (4, 3) to (4, 2): sizes differ"},
        BadGraph{"%7 = STACK<index> %6, %1\n%8 = EXPAND<f32> %3, %7\n", "only size-1 axes expand"},
        BadGraph{"%7 = PERMUTE<f32> %3 {0, 0}\n", "no permutation"},
        BadGraph{"%7 = PERMUTE<f32> %3 {1}\n", "no permutation"},
        BadGraph{
            "%7 = STACK<index> %1, %6\n%8 = STACK<index> %6, %6\n%9 = SHRINK<f32> %3, %7, %8\n",
            "can leave the source"},
        BadGraph{"%7 = DEFINE_VAR<index> {0, 3, \"n\"}\n%8 = CONST<index> {0}\n%9 = STACK<index> "
                 "%7, %8\n%10 = STACK<index> %6, %1\n"
                 "%11 = SHRINK<f32> %3, %9, %10\n",
                 "can leave the source"},
        BadGraph{"%7 = STACK<index> %6, %6\n%8 = PAD<f32> %3, %7, %2\n", "does not fit"},
        BadGraph{"%7 = REDUCE<f32> %3 {ADD, 2}\n", "axes ascend and exist"},
        BadGraph{"%7 = REDUCE<f32> %3 {SUB, 1}\n", "none of ADD, MUL, MAX"},
        BadGraph{"%7 = SCAN<f32> %3 {ADD, 2}\n", "which its source lacks"},
        BadGraph{"%7 = SCAN<f32> %3 {ADD}\n", "runs along one axis"},
        BadGraph{"%7 = SCAN<f32> %3 {SUB, 1}\n", "none of ADD, MUL, MAX"},
        BadGraph{"%7 = STACK<index> %6, %6\n%8 = PARAM<f32> %7 {2, GLOBAL}\n%9 = ADD<f32> %3, %8\n",
                 "do not broadcast"},
        BadGraph{"%7 = CONST<index> {-1}\n%8 = STACK<index> %7\n%9 = PARAM<f32> %8 {2, GLOBAL}\n",
                 "can be negative"},
        BadGraph{"%7 = CONST<index> {1000000000000}\n%8 = STACK<index> %7, %7\n%9 = PARAM<f32> %8 "
                 "{2, GLOBAL}\n",
                 "more than 2^48"},
        BadGraph{"%7 = STORE %5, %5\n", "which is no buffer"},
        BadGraph{"%7 = STORE %3, %5\n", "shape is not the target's"},
        BadGraph{"%7 = BITCAST<f64> %3\n", "same width"},
        BadGraph{"%7 = DEFINE_VAR<index> {5, 2, \"n\"}\n", "min <= max"},
        BadGraph{"%7 = DEFINE_VAR<index> {0, 9, \"n\"}\n%8 = CONST<index> {12}\n%9 = BIND<index> "
                 "%7, %8\n",
                 "outside [0, 9]"},
        BadGraph{"%7 = LOAD<f32> %3\n", "not allowed here"},
        BadGraph{"%7 = BUFFER<f32> %2 {0, GLOBAL}\n", "not allowed here"},
        BadGraph{"%7 = STACK<index> %2\n%8 = PARAM<f32> %7 {2, GLOBAL}\n",
                 "STACK<index> of a shape"},
        BadGraph{"%7 = CAST<i32> %2\n", "CAST<i32> of a shape"},
        BadGraph{"%7 = PARAM<f32> %2 {2, LOCAL}\n", "GLOBAL, not LOCAL"},
        BadGraph{"%7 = PARAM<f32> %2 {2, GLOBAL, \"CPU\\x0a\"}\n", "letters, digits"},
        BadGraph{"%7 = STACK<index>\n%8 = PARAM<u8> %7 {2, GLOBAL}\n%9 = CAST<index> %8\n",
                 "known before a run"},
        BadGraph{"%7 = STACK<index> %6, %0, %1\n%8 = EXPAND<f32> %3, %7\n%9 = STORE %8, %8\n",
                 "not distinct elements"},
        BadGraph{"%7 = STACK<f32>\n", "STACK of no tensors"},
        BadGraph{"%7 = STORE %3, %3\n%8 = SINK %7 {\"k\"}\n", "takes no arg"},
        BadGraph{"%7 = IOTA<i32> %2 {2}\n", "axis that its shape lacks"},
        BadGraph{"%7 = SINK %5\n", "roots are STOREs"},
        BadGraph{"%7 = SINK\n", "nothing to compute"},
        BadGraph{"%7 = STACK<index> %0\n%8 = PARAM<f32> %7 {0, GLOBAL}\n%9 = STORE %8, %8\n%10 = "
                 "STORE %3, %3\n%11 = SINK %9, %10\n",
                 "declared twice"}));

TEST(Spec, SymbolicBoxesThatFitPass) {
  UOpContext ctx;
  const auto root = Parse(
      ctx,
      std::string(kHead) +
          "%7 = DEFINE_VAR<index> {0, 2, \"n\"}\n%8 = CONST<index> {0}\n%9 = STACK<index> %7, %8\n"
          "%10 = STACK<index> %6, %1\n%11 = SHRINK<f32> %3, %9, %10\n%12 = PARAM<f32> %10 {2, "
          "GLOBAL}\n"
          "%13 = STORE %12, %11\n%14 = SINK %13\n");
  ASSERT_TRUE(root.ok());
  const absl::Status s = Verify(ctx, *root, Level::kTensor);
  EXPECT_TRUE(s.ok()) << StatusText(s);
}

// The head of kernels that stage the elements of a row of 4.
constexpr char kStages[] =
    "%0 = CONST<index> {4}\n%1 = STACK<index> %0\n%2 = PARAM<f32> %1 {0, GLOBAL}\n"
    "%3 = PARAM<f32> %1 {1, GLOBAL}\n%4 = RANGE<index> %0 {0, LOOP}\n"
    "%5 = RANGE<index> %0 {1, REDUCE}\n%6 = INDEX<f32> %3, %5\n%7 = LOAD<f32> %6\n"
    "%8 = CONST<bool> {true}\n";

struct BadStage {
  const char* tail;
  const char* message;
};

// Sizes are compared as expressions, not by their intervals.
TEST(Spec, BoxesThatFitForEveryValueOfAVariablePass) {
  constexpr char kGraph[] =
      "%0 = DEFINE_VAR<index> {1, 64, \"v\"}\n%1 = CONST<index> {1}\n%2 = ADD<index> %0, %1\n"
      "%3 = STACK<index> %0\n%4 = STACK<index> %2\n%5 = CONST<index> {0}\n%6 = STACK<index> %5\n"
      "%7 = CONST<index> {4}\n%8 = MUL<index> %0, %7\n%9 = STACK<index> %8\n"
      "%10 = STACK<index> %0, %7\n%11 = PARAM<f32> %3 {0, GLOBAL}\n"
      "%12 = PARAM<f32> %4 {1, GLOBAL}\n%13 = PARAM<f32> %10 {2, GLOBAL}\n%14 = STACK<index> %1\n";
  for (const char* fits :
       {"PAD<f32> %11, %6, %4", "PAD<f32> %11, %14, %4", "SHRINK<f32> %12, %6, %3",
        "SHRINK<f32> %12, %14, %3", "SHRINK<f32> %12, %3, %14", "RESHAPE<f32> %13, %9"}) {
    UOpContext ctx;
    const auto root = Parse(ctx, Cat(kGraph, "%15 = ", fits, "\n"));
    ASSERT_TRUE(root.ok()) << StatusText(root.status());
    const absl::Status s = VerifyNode(ctx, *root, Level::kTensor);
    EXPECT_TRUE(s.ok()) << fits << ": " << StatusText(s);
  }
  for (const char* does_not : {"PAD<f32> %12, %6, %3", "SHRINK<f32> %11, %6, %4",
                               "SHRINK<f32> %11, %14, %3", "RESHAPE<f32> %11, %9"}) {
    UOpContext ctx;
    const auto root = Parse(ctx, Cat(kGraph, "%15 = ", does_not, "\n"));
    ASSERT_TRUE(root.ok()) << StatusText(root.status());
    EXPECT_FALSE(VerifyNode(ctx, *root, Level::kTensor).ok()) << does_not;
  }
}

class StageErrors : public ::testing::TestWithParam<BadStage> {};

TEST_P(StageErrors, AreFoundAndNamed) {
  UOpContext ctx;
  const auto root = Parse(ctx, std::string(kStages) + GetParam().tail);
  ASSERT_TRUE(root.ok()) << StatusText(root.status());
  const absl::Status s = Verify(ctx, *root, Level::kKernel);
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << StatusText(s);
  EXPECT_NE(StatusText(s).find(GetParam().message), std::string::npos) << StatusText(s);
}

INSTANTIATE_TEST_SUITE_P(
    All, StageErrors,
    ::testing::Values(
        BadStage{"%9 = STAGE<f32> %7, %5, %7, %5 {4}\n",
                 "source 2 of STAGE has dtype f32, not bool"},
        BadStage{"%9 = STAGE<f32> %7, %5, %8, %0 {4}\n", "source 3 of STAGE is no RANGE"},
        BadStage{"%9 = STAGE<f32> %7, %5, %8, %5 {3}\n",
                 "index in [0, 3] can leave its buffer of 3 elements"},
        BadStage{"%9 = STAGE<f32> %7, %7, %8, %5 {4}\n", "STAGE at an index of dtype f32"},
        BadStage{"%9 = STAGE<i32> %7, %5, %8, %5 {4}\n",
                 "source 0 of STAGE has dtype f32, not i32"},
        BadStage{"%9 = STAGE<index> %5, %5, %8, %5 {4}\n", "STAGE of index"},
        BadStage{"%9 = STAGE<f32> %7, %5 {4}\n", "STAGE has 2 sources; it takes 3 or more"},
        BadStage{"%9 = STAGE<f32> %7, %5, %8, %5 {2000000}\n", "integer (2000000) out of range"},
        BadStage{"%9 = STAGE<f32> %7, %5, %8, %5 {4}\n%10 = CONST<index> {4}\n"
                 "%11 = INDEX<f32> %9, %10\n",
                 "index in [4, 4] can leave its buffer of 4 elements"},
        BadStage{"%9 = STAGE<f32> %7, %5, %8, %5 {4}\n%10 = INDEX<f32> %9, %4\n"
                 "%11 = STORE %10, %7\n",
                 "STORE into a STAGE"}));

// Of a matrix of 16 x 16 sums, with one number or source wrong.
TEST(Spec, BlocksOfMatricesAreChecked) {
  const auto verify = [](Dtype sum, Dtype row, Dtype column, std::vector<int64_t> arg) {
    UOpContext ctx;
    const UOp shape = ShapeArg(ctx, std::initializer_list<int64_t>{4096});
    const auto at = [&](int64_t slot, Dtype d) {
      return Index(ctx, Param(ctx, slot, d, shape), ctx.Idx(0));
    };
    const UOp block = ctx.Make(Op::WMMA_BLOCK, Dtype::Void, {at(0, sum), at(1, row), at(2, column)},
                               ctx.Data(std::span<const int64_t>(arg)));
    return std::string(VerifyNode(ctx, block, Level::kLinear).message());
  };
  const auto bf16 = static_cast<int64_t>(NumberOf(Dtype::BF16)),
             f16 = static_cast<int64_t>(NumberOf(Dtype::F16)),
             i8 = static_cast<int64_t>(NumberOf(Dtype::I8));
  using enum Dtype;
  EXPECT_EQ(verify(F32, U16, U32, {bf16, bf16, 16, 16, 16, 32, 16}), "");
  EXPECT_EQ(verify(F32, F16, U32, {f16, f16, 16, 16, 16, 32, 16}), "");
  EXPECT_EQ(verify(I32, I8, U32, {i8, i8, 16, 16, 16, 64, 16}), "");
  EXPECT_EQ(verify(I32, U32, U32, {i8, i8, 16, 16, 16, 16, 16}), "");
  EXPECT_EQ(verify(F32, U16, U32, {bf16, bf16, 16, 16, 16, 32}),
            "arg of WMMA_BLOCK is seven numbers");
  EXPECT_EQ(verify(I32, U16, U32, {bf16, bf16, 16, 16, 16, 32, 16}),
            "WMMA_BLOCK of these dtypes does not give i32");
  EXPECT_EQ(verify(F32, U16, U32, {bf16, i8, 16, 16, 16, 32, 16}),
            "WMMA_BLOCK of these dtypes does not give f32");
  EXPECT_EQ(verify(F32, U16, U32, {bf16, f16, 16, 16, 16, 32, 16}),
            "WMMA_BLOCK of these dtypes does not give f32");
  EXPECT_EQ(verify(F32, F32, U32, {bf16, bf16, 16, 16, 16, 32, 16}), "WMMA_BLOCK of rows of f32");
  EXPECT_EQ(verify(F32, U16, U16, {bf16, bf16, 16, 16, 16, 32, 16}),
            "WMMA_BLOCK of columns of u16");
  EXPECT_EQ(verify(F32, U16, U32, {bf16, bf16, 16, 16, 0, 32, 16}),
            "WMMA_BLOCK without rows, columns or words");
}

TEST(Spec, StagesAreForKernels) {
  UOpContext ctx;
  const auto root = Parse(
      ctx, std::string(kStages) +
               "%9 = STAGE<f32> %7, %5, %8, %5 {4}\n%10 = INDEX<f32> %9, %4\n%11 = LOAD<f32> %10\n"
               "%12 = INDEX<f32> %2, %4\n%13 = STORE %12, %11\n%14 = END %13, %4\n%15 = SINK %14 "
               "{}\n");
  ASSERT_TRUE(root.ok()) << StatusText(root.status());
  EXPECT_TRUE(Verify(ctx, *root, Level::kKernel).ok()) << Verify(ctx, *root, Level::kKernel);
  const auto stage = Parse(ctx,
                           "%0 = CONST<f32> {1}\n%1 = CONST<index> {0}\n%2 = CONST<bool> {true}\n"
                           "%3 = STAGE<f32> %0, %1, %2 {4}\n");
  ASSERT_TRUE(stage.ok()) << StatusText(stage.status());
  const absl::Status s = Verify(ctx, *stage, Level::kTensor);
  EXPECT_NE(StatusText(s).find("op STAGE is not allowed here"), std::string::npos) << StatusText(s);
}

double VerifySeconds(int64_t stores, bool views) {
  UOpContext ctx;
  const UOp shape = ShapeArg(ctx, std::initializer_list<int64_t>{4});
  const int64_t axis[] = {0};
  UOp x = Param(ctx, 0, Dtype::F32, shape);
  for (int64_t i = 0; i < stores; ++i) {
    if (views) x = Flip(ctx, x, axis);
    x = After(ctx, x, {Store(ctx, x, Add(ctx, x, ctx.Float(Dtype::F32, static_cast<double>(i))))});
  }
  const UOp sink = Sink(ctx, std::span(&x, 1));
  timespec begin, end;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  const absl::Status s = Verify(ctx, sink, Level::kTensor);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  EXPECT_TRUE(s.ok()) << StatusText(s);
  return static_cast<double>(end.tv_sec - begin.tv_sec) +
         1e-9 * static_cast<double>(end.tv_nsec - begin.tv_nsec);
}

// A chain of assignments, each to what the one before left: 40,000 took five seconds.
TEST(Spec, ChainsOfStoresTakeLinearTime) {
  for (bool views : {false, true}) {
    const double small = VerifySeconds(2000, views), large = VerifySeconds(32000, views);
    EXPECT_LT(large, 16 * small * 4 + 0.02)
        << small << " s for 2,000, " << large << " s for 32,000";
  }
}

TEST(Spec, WaysAreTheSameWithAndWithoutAMemory) {
  UOpContext ctx;
  const UOp shape = ShapeArg(ctx, std::initializer_list<int64_t>{4});
  const int64_t axis[] = {0};
  const UOp base = Param(ctx, 0, Dtype::F32, shape);
  std::vector<UOp> views = {base};
  for (int i = 0; i < 40; ++i) {
    const UOp x = views.back();
    views.push_back(i == 20 ? Pad(ctx, x, ShapeArg(ctx, std::initializer_list<int64_t>{1}),
                                  ShapeArg(ctx, std::initializer_list<int64_t>{8}))
                            : Flip(ctx, x, axis));
  }
  for (size_t step : {size_t{40}, size_t{7}, size_t{1}}) {
    for (size_t i = 0; i <= 40; i += step) {
      EXPECT_EQ(MaybeBaseOf(ctx, views[i]), base) << i;
      EXPECT_EQ(ctx.WayOf(views[i]).repeats, i > 20) << i;
    }
  }
  EXPECT_FALSE(MaybeBaseOf(ctx, Add(ctx, base, base)));
}

}  // namespace
}  // namespace uopd::ir
