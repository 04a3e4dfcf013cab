// SPDX-License-Identifier: MIT
#include "core/ir/io/print.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/ir/build.h"

namespace uopd::ir {
namespace {

TEST(Print, EveryKindOfArgReadsBack) {
  UOpContext ctx;
  const UOp shape =
      ShapeArg(ctx, std::initializer_list<UOp>{ctx.Idx(2), Variable(ctx, "n \"q\"\\\x01", -3, 9)});
  const UOp p = Param(ctx, 3, Dtype::F32, shape, "CPU:1");
  const int64_t axes[] = {0, 1};
  std::vector<UOp> roots = {Permute(ctx, p, axes), Flip(ctx, p, axes),
                            ReduceAxes(ctx, Op::MAX, p, axes), Iota(ctx, Dtype::I32, shape, 1)};
  for (double v : {0.1, -0.0, 1e-45, 3e38, double(-INFINITY), double(NAN), 65504.0})
    roots.push_back(ctx.Float(Dtype::F64, v));
  roots.push_back(ctx.Float(Dtype::F8E4M3, 0.3));
  roots.push_back(ctx.Int(Dtype::U64, static_cast<Int128>(UINT64_MAX)));
  roots.push_back(ctx.Int(Dtype::I64, INT64_MIN));
  roots.push_back(ctx.Bool(true));
  roots.push_back(Range(ctx, ctx.Idx(8), 2, AxisType::UNROLL));
  roots.push_back(ctx.Make(Op::CONST, Dtype::I32, std::span<const UOp>{}, Arg::Int(1), -7));
  roots.push_back(
      Index(ctx, Buffer(ctx, 5, Dtype::F32, shape, AddrSpace::REG), ctx.Idx(0), UOp(), 8));
  const UOp sink = KernelSink(ctx, roots, "k");
  const std::string text = Print(ctx, sink);
  UOpContext other;
  const auto again = Parse(other, text);
  ASSERT_TRUE(again.ok()) << StatusText(again.status()) << text;
  EXPECT_EQ(Print(other, *again), text);
  // Same context: the very same node.
  const auto same = Parse(ctx, text);
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(*same, sink);
}

struct BadText {
  const char* text;
  const char* message;
};

class ParseErrors : public ::testing::TestWithParam<BadText> {};

TEST_P(ParseErrors, NameLineAndCause) {
  UOpContext ctx;
  const auto out = Parse(ctx, GetParam().text);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(StatusText(out.status()).find(GetParam().message), std::string::npos)
      << StatusText(out.status());
}

INSTANTIATE_TEST_SUITE_P(
    All, ParseErrors,
    ::testing::Values(BadText{"", "no node"}, BadText{"hello", "line 1"},
                      BadText{"%0 = FROB<f32>", "unknown op (FROB)"},
                      BadText{"%0 = CONST<f33> {1}", "unknown dtype (f33)"},
                      BadText{"%0 = CONST<f32>", "without a value"},
                      BadText{"%0 = CONST<i8> {300}", "no i8"},
                      BadText{"%0 = CONST<bool> {2}", "no bool"},
                      BadText{"%0 = NEG<i32> %0", "cycle"},
                      BadText{"%0 = NEG<i32> %5", "cycle or a forward"},
                      BadText{"%1 = CONST<i32> {1}", "out of order"},
                      BadText{"%0 = CONST<i32> {1} x", "unexpected `x`"},
                      BadText{"%0 = CONST<i32> {1", "does not end"},
                      BadText{"%0 = DEFINE_VAR<index> {1, 2, \"n", "text does not end"},
                      BadText{"%0 = CONST<i32> {1}\n%1 = NEG<i32> %0 {3}", "line 2"}));

TEST(Parse, StopsAtTheLimit) {
  UOpContext ctx;
  const auto out =
      Parse(ctx, "%0 = CONST<i32> {1}\n%1 = CONST<i32> {2}\n%2 = CONST<i32> {3}\n", {2});
  EXPECT_EQ(out.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(StatusText(out.status()).find("%2"), std::string::npos);
}

}  // namespace
}  // namespace uopd::ir
