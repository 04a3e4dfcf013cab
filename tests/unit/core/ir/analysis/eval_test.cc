// SPDX-License-Identifier: MIT
#include "core/ir/analysis/eval.h"

#include <gtest/gtest.h>

#include <cmath>

namespace uopd::ir {
namespace {

int64_t Int(Op op, Dtype d, Int128 a, Int128 b) {
  const Scalar v[] = {Scalar::Int(d, a), Scalar::Int(d, b)};
  return EvalAlu(op, kComparisonOps.Has(op) ? Dtype::Bool : d, v)->i;
}
double Float(Op op, Dtype d, double a, double b) {
  const Scalar v[] = {Scalar::Float(d, a), Scalar::Float(d, b)};
  const Scalar out = *EvalAlu(op, kComparisonOps.Has(op) ? Dtype::Bool : d, v);
  return kComparisonOps.Has(op) ? static_cast<double>(out.i) : out.f;
}
Scalar CastTo(Dtype to, Scalar x) { return *EvalAlu(Op::CAST, to, std::span(&x, 1)); }

// Against multiplying again and again, and numbers of another program.
TEST(Eval, IntegerPowersWrap) {
  for (Dtype d : {Dtype::I8, Dtype::U8}) {
    const int low = d == Dtype::I8 ? -128 : 0, high = low + 255;
    for (int x = low; x <= high; ++x) {
      int64_t product = 1;
      for (int y = 0; y <= high; ++y) {
        ASSERT_EQ(Int(Op::POW, d, x, y), product) << x << " to the power " << y;
        product = WrapTo(d, product * x);
      }
      for (int y = low; y < 0; ++y) {
        const int inverse = x == 1 ? 1 : x == -1 ? (y % 2 != 0 ? -1 : 1) : 0;
        ASSERT_EQ(Int(Op::POW, d, x, y), inverse) << x << " to the power " << y;
      }
    }
  }
  EXPECT_EQ(Int(Op::POW, Dtype::I64, 3, 39), 4052555153018976267);
  EXPECT_EQ(Int(Op::POW, Dtype::I64, -7, 101), -7652423361088632999);
  EXPECT_EQ(static_cast<uint64_t>(Int(Op::POW, Dtype::U64, 3, Int128{UINT64_MAX})),
            12297829382473034411u);
  EXPECT_EQ(Int(Op::POW, Dtype::U64, 2, Int128{UINT64_MAX}), 0);
  EXPECT_EQ(Int(Op::POW, Dtype::I64, 2, 63), INT64_MIN);
  EXPECT_EQ(Int(Op::POW, Dtype::I64, 0, INT64_MIN), 0);
  EXPECT_EQ(Int(Op::POW, Dtype::I64, INT64_MIN, 0), 1);
}

TEST(Eval, DivisionRoundsAsNamed) {
  for (int a = -9; a <= 9; ++a) {
    for (int b = -4; b <= 4; ++b) {
      if (b == 0) {
        for (Op op : {Op::CDIV, Op::CMOD, Op::FLOORDIV, Op::FLOORMOD})
          EXPECT_EQ(Int(op, Dtype::I32, a, 0), 0);
        continue;
      }
      EXPECT_EQ(Int(Op::CDIV, Dtype::I32, a, b), a / b);
      EXPECT_EQ(Int(Op::CMOD, Dtype::I32, a, b), a % b);
      EXPECT_EQ(Int(Op::FLOORDIV, Dtype::I32, a, b),
                static_cast<int64_t>(std::floor(double(a) / b)));
      EXPECT_EQ(Int(Op::FLOORMOD, Dtype::I32, a, b),
                a - b * static_cast<int64_t>(std::floor(double(a) / b)));
    }
  }
  EXPECT_EQ(Int(Op::CDIV, Dtype::I8, -128, -1), -128);
  EXPECT_EQ(Int(Op::CDIV, Dtype::U64, static_cast<Int128>(UINT64_MAX), 2), INT64_MAX);
}

TEST(Eval, IntegersWrapAndShiftsAreDefined) {
  EXPECT_EQ(Int(Op::MUL, Dtype::I64, INT64_MAX, 2), -2);
  EXPECT_EQ(Int(Op::ADD, Dtype::U8, 250, 10), 4);
  EXPECT_EQ(Int(Op::SHL, Dtype::I32, 1, 31), INT32_MIN);
  EXPECT_EQ(Int(Op::SHL, Dtype::I32, 1, 32), 0);
  EXPECT_EQ(Int(Op::SHR, Dtype::I32, -8, 1), -4);
  EXPECT_EQ(Int(Op::SHR, Dtype::I32, -8, 40), -1);
  EXPECT_EQ(Int(Op::SHR, Dtype::U32, 8, 40), 0);
  EXPECT_EQ(Int(Op::CMPLT, Dtype::U64, 1, static_cast<Int128>(UINT64_MAX)), 1);
}

TEST(Eval, FloatsFollowIeee) {
  const double nan = std::nan(""), inf = INFINITY;
  EXPECT_TRUE(std::isnan(Float(Op::MAX, Dtype::F32, 1, nan)));
  EXPECT_TRUE(std::isnan(Float(Op::MAX, Dtype::F32, nan, 1)));
  EXPECT_EQ(Float(Op::CMPLT, Dtype::F32, nan, 1), 0);
  EXPECT_EQ(Float(Op::CMPNE, Dtype::F32, nan, nan), 1);
  EXPECT_EQ(Float(Op::CMPEQ, Dtype::F32, 0.0, -0.0), 1);
  EXPECT_TRUE(std::isnan(Float(Op::MUL, Dtype::F32, 0, inf)));
  EXPECT_EQ(Float(Op::ADD, Dtype::F16, 2048, 1), 2048);
  EXPECT_EQ(Float(Op::FDIV, Dtype::F64, 1, 0.0), inf);
}

TEST(Eval, CastsTruncateAndSaturate) {
  EXPECT_EQ(CastTo(Dtype::I32, Scalar::Float(Dtype::F32, -2.9)).i, -2);
  EXPECT_EQ(CastTo(Dtype::I8, Scalar::Float(Dtype::F32, 1000)).i, 127);
  EXPECT_EQ(CastTo(Dtype::U8, Scalar::Float(Dtype::F32, -5)).i, 0);
  EXPECT_EQ(CastTo(Dtype::I64, Scalar::Float(Dtype::F64, std::nan(""))).i, 0);
  EXPECT_EQ(CastTo(Dtype::I64, Scalar::Float(Dtype::F64, 1e30)).i, INT64_MAX);
  EXPECT_EQ(CastTo(Dtype::Bool, Scalar::Float(Dtype::F32, std::nan(""))).i, 1);
  EXPECT_EQ(CastTo(Dtype::I8, Scalar::Int(Dtype::I32, 300)).i, 44);
}

// i64 -> f32 through a double would round twice.
TEST(Eval, IntegersRoundToFloatsOnce) {
  for (int64_t v : {int64_t{9007199791611905}, INT64_MAX, INT64_MIN, int64_t{0x4000004000000001},
                    int64_t{-0x4000004000000001}}) {
    EXPECT_EQ(CastTo(Dtype::F32, Scalar::Int(Dtype::I64, v)).f,
              static_cast<double>(static_cast<float>(v)))
        << v;
  }
  const uint64_t u = 0xffffff8000000001;
  EXPECT_EQ(CastTo(Dtype::F32, Scalar::Int(Dtype::U64, static_cast<Int128>(u))).f,
            static_cast<double>(static_cast<float>(u)));
}

// Known answers of the Random123 distribution for threefry2x32 with 20 rounds.
TEST(Eval, ThreefryKnownAnswers) {
  auto pack = [](uint64_t lo, uint64_t hi) { return hi << 32 | lo; };
  EXPECT_EQ(Threefry(0, 0), pack(0x6b200159, 0x99ba4efe));
  EXPECT_EQ(Threefry(UINT64_MAX, UINT64_MAX), pack(0x1cb996fc, 0xbb002be7));
  EXPECT_EQ(Threefry(pack(0x243f6a88, 0x85a308d3), pack(0x13198a2e, 0x03707344)),
            pack(0xc4923a9c, 0x483df7a0));
}

}  // namespace
}  // namespace uopd::ir
