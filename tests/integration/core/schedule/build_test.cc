// SPDX-License-Identifier: MIT
// What core/ir/build.h composes of several ops, computed by the tensor interpreter.
#include "core/ir/build.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"
#include "tests/support/tensor_interpreter.h"

namespace uopd::ir {
namespace {

using test::HostArray;

class BuildTest : public ::testing::Test {
 protected:
  UOp In(Dtype dtype, std::initializer_list<int64_t> dims) {
    return Param(ctx, 0, dtype, ShapeArg(ctx, std::span<const int64_t>(dims.begin(), dims.size())));
  }
  HostArray Evaluate(UOp value, const HostArray& slot) {
    for (UOp u : Toposort(ctx, value)) EXPECT_TRUE(VerifyNode(ctx, u, Level::kTensor).ok());
    const auto out = test::TensorInterpreter(ctx).Evaluate(value, {slot});
    EXPECT_TRUE(out.ok()) << StatusText(out.status());
    return *out;
  }
  UOpContext ctx;
};

TEST_F(BuildTest, BitcastToAnotherWidthIsTheBytesRead) {
  // 2 x 16 bytes with every sign and exponent, seen as each dtype.
  std::string bytes;
  for (int i = 0; i < 32; ++i) bytes += static_cast<char>(i * 37 + 11);
  for (Dtype from : {Dtype::U8, Dtype::I8, Dtype::I16, Dtype::F16, Dtype::U32, Dtype::F32,
                     Dtype::I64, Dtype::F64, Dtype::BF16}) {
    for (Dtype to : {Dtype::U8, Dtype::I8, Dtype::U16, Dtype::F16, Dtype::I32, Dtype::F32,
                     Dtype::U64, Dtype::F64}) {
      SCOPED_TRACE(std::string(Name(from)) + " to " + std::string(Name(to)));
      const int64_t n = 16 / ByteSize(from), m = 16 / ByteSize(to);
      const auto out = BitcastWidth(ctx, In(from, {2, n}), to);
      ASSERT_TRUE(out.ok()) << StatusText(out.status());
      const HostArray got = Evaluate(*out, HostArray::FromBytes(from, {2, n}, bytes));
      EXPECT_EQ(got.dtype, to);
      EXPECT_EQ(got.dims, (Dims{2, m}));
      // NaNs have one bit pattern here, so compare values.
      EXPECT_EQ(got.ToBytes(), HostArray::FromBytes(to, {2, m}, bytes).ToBytes());
    }
  }
}

// The same bytes as of a fixed size, for every value of the variable.
TEST_F(BuildTest, BitcastReadsBytesOfASymbolicAxis) {
  const UOp v = Variable(ctx, "v", 0, 3), n = Mul(ctx, v, ctx.Idx(4));
  const UOp more = Add(ctx, n, ctx.Idx(8));  // 4 * v + 8
  auto in = [&](Dtype d, UOp last) {
    return Param(ctx, 0, d, ShapeArg(ctx, std::array{ctx.Idx(2), last}));
  };
  for (int64_t value = 0; value <= 3; ++value) {
    for (const UOp size : {n, more}) {
      const int64_t most = size == n ? 12 : 20, bytes = 4 * value + (size == n ? 0 : 8);
      std::string stored;
      for (int64_t i = 0; i < 2 * most; ++i) stored += static_cast<char>(i * 37 + 11);
      const auto wide = BitcastWidth(ctx, in(Dtype::U8, size), Dtype::U32);
      ASSERT_TRUE(wide.ok()) << StatusText(wide.status());
      const std::vector<HostArray> slots = {HostArray::FromBytes(Dtype::U8, {2, most}, stored)};
      const auto got = test::TensorInterpreter(ctx).Evaluate(*wide, slots, {{"v", value}});
      ASSERT_TRUE(got.ok()) << StatusText(got.status());
      EXPECT_EQ(got->dims, (Dims{2, bytes / 4}));
      const auto rows = static_cast<size_t>(bytes);
      EXPECT_EQ(got->ToBytes(),
                stored.substr(0, rows) + stored.substr(static_cast<size_t>(most), rows));
      // And back.
      const auto back = BitcastWidth(ctx, *wide, Dtype::U8);
      ASSERT_TRUE(back.ok()) << StatusText(back.status());
      const auto again = test::TensorInterpreter(ctx).Evaluate(*back, slots, {{"v", value}});
      ASSERT_TRUE(again.ok()) << StatusText(again.status());
      EXPECT_EQ(again->dims, (Dims{2, bytes}));
      EXPECT_EQ(again->ToBytes(), got->ToBytes());
    }
  }
  EXPECT_TRUE(BitcastWidth(ctx, in(Dtype::F32, v), Dtype::U8).ok());
  EXPECT_EQ(BitcastWidth(ctx, in(Dtype::U8, v), Dtype::U32).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(BuildTest, BitcastRefusesWhatHasNoBytes) {
  auto code = [&](UOp x, Dtype to) { return BitcastWidth(ctx, x, to).status().code(); };
  EXPECT_EQ(code(In(Dtype::U8, {6}), Dtype::U32), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(In(Dtype::U8, {}), Dtype::U16), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(In(Dtype::Bool, {4}), Dtype::U32), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(In(Dtype::F32, {4}), Dtype::Index), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(BitcastWidth(ctx, In(Dtype::U8, {0}), Dtype::U32).ok());
}

TEST_F(BuildTest, DivisionsAndRemaindersOfFloats) {
  const double inf = INFINITY;
  const std::vector<double> as = {7, -7, 7, -7, 6, -6, 0.0, -0.0, 5.5, -5.5, 1e6, inf, -0.25};
  const std::vector<double> bs = {3, 3, -3, -3, 3, 3, 3, 3, 0.5, 2, 0.75, 2, 3};
  const auto n = static_cast<int64_t>(as.size());
  const UOp shape = ShapeArg(ctx, std::span(&n, 1));
  const UOp a = Param(ctx, 0, Dtype::F64, shape), b = Param(ctx, 1, Dtype::F64, shape);
  const std::vector<HostArray> slots = {HostArray::Of(Dtype::F64, {n}, as),
                                        HostArray::Of(Dtype::F64, {n}, bs)};
  auto run = [&](UOp u) { return test::TensorInterpreter(ctx).Evaluate(u, slots)->ToDoubles(); };
  const auto floor_div = run(FloorDiv(ctx, a, b)), floor_mod = run(FloorMod(ctx, a, b)),
             trunc_div = run(TruncDiv(ctx, a, b)), trunc_mod = run(TruncMod(ctx, a, b));
  for (size_t i = 0; i < as.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << as[i] << " by " << bs[i]);
    EXPECT_EQ(floor_div[i], std::floor(as[i] / bs[i]));
    EXPECT_EQ(std::signbit(floor_div[i]), std::signbit(std::floor(as[i] / bs[i])));
    EXPECT_EQ(trunc_div[i], std::trunc(as[i] / bs[i]));
    if (std::isinf(as[i])) {
      EXPECT_TRUE(std::isnan(floor_mod[i]) && std::isnan(trunc_mod[i]));
      continue;
    }
    EXPECT_EQ(trunc_mod[i], std::fmod(as[i], bs[i]));
    const double m = std::fmod(as[i], bs[i]);
    EXPECT_EQ(floor_mod[i], m != 0 && (m < 0) != (bs[i] < 0) ? m + bs[i] : m);
  }
  EXPECT_EQ(TruncDiv(ctx, ctx.Idx(7), ctx.Idx(2)).op(), Op::CDIV);
  EXPECT_EQ(FloorMod(ctx, ctx.Idx(7), ctx.Idx(2)).op(), Op::FLOORMOD);
}

}  // namespace
}  // namespace uopd::ir
