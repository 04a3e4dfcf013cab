// SPDX-License-Identifier: MIT
#include "core/ir/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace uopd::ir {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Every 8- and 16-bit pattern decodes to a value that encodes to the same pattern (NaNs to the
// canonical one).
TEST(Dtype, SmallFloatsRoundTrip) {
  for (Dtype d : {Dtype::F8E4M3, Dtype::F8E5M2, Dtype::F16, Dtype::BF16}) {
    for (uint64_t bits = 0; bits < uint64_t{1} << Bits(d); ++bits) {
      const double v = DecodeFloat(d, bits);
      if (std::isnan(v)) {
        EXPECT_TRUE(std::isnan(DecodeFloat(d, EncodeFloat(d, v))));
        continue;
      }
      EXPECT_EQ(EncodeFloat(d, v), bits) << Name(d) << " " << v;
      EXPECT_EQ(RoundTo(d, v), v) << Name(d);
    }
  }
}

// Halfway between two neighbours rounds to the even pattern; just beyond rounds away.
TEST(Dtype, RoundsHalfToEven) {
  for (Dtype d : {Dtype::F8E4M3, Dtype::F8E5M2, Dtype::F16, Dtype::BF16}) {
    const uint64_t last = EncodeFloat(d, d == Dtype::F8E4M3   ? 448
                                         : d == Dtype::F8E5M2 ? 57344
                                         : d == Dtype::F16    ? 65504
                                                              : 0x1.fep127);
    for (uint64_t bits = 0; bits < last; ++bits) {
      const double lo = DecodeFloat(d, bits), hi = DecodeFloat(d, bits + 1),
                   middle = lo + (hi - lo) / 2;
      EXPECT_EQ(RoundTo(d, middle), bits % 2 == 0 ? lo : hi) << Name(d) << " " << middle;
      EXPECT_EQ(RoundTo(d, std::nextafter(middle, kInf)), hi) << Name(d);
      EXPECT_EQ(RoundTo(d, -std::nextafter(middle, 0)), -lo) << Name(d);
    }
  }
}

TEST(Dtype, OverflowAsEachFormatSays) {
  EXPECT_EQ(RoundTo(Dtype::F16, 65520), kInf);
  EXPECT_EQ(RoundTo(Dtype::F16, 65519), 65504);
  EXPECT_EQ(RoundTo(Dtype::F8E4M3, 1e9), 448);
  EXPECT_EQ(RoundTo(Dtype::F8E4M3, -kInf), -448);
  EXPECT_EQ(RoundTo(Dtype::F8E5M2, 1e9), 57344);
  EXPECT_EQ(RoundTo(Dtype::F8E5M2, kInf), kInf);
  EXPECT_EQ(RoundTo(Dtype::F32, 1e300), kInf);
}

TEST(Dtype, PromotionIsCommutativeAndIdempotent) {
  for (int i = 1; i < kDtypeCount; ++i) {
    for (int j = 1; j < kDtypeCount; ++j) {
      const auto a = static_cast<Dtype>(i), b = static_cast<Dtype>(j), p = Promote(a, b);
      EXPECT_EQ(p, Promote(b, a)) << Name(a) << " " << Name(b);
      EXPECT_EQ(Promote(p, a), p) << Name(a) << " " << Name(b);
    }
  }
  EXPECT_EQ(Promote(Dtype::I8, Dtype::U8), Dtype::I16);
  EXPECT_EQ(Promote(Dtype::U32, Dtype::I8), Dtype::I64);
  EXPECT_EQ(Promote(Dtype::I64, Dtype::U64), Dtype::F32);
  EXPECT_EQ(Promote(Dtype::F16, Dtype::BF16), Dtype::F32);
  EXPECT_EQ(Promote(Dtype::I64, Dtype::F16), Dtype::F16);
  EXPECT_EQ(Promote(Dtype::Bool, Dtype::U8), Dtype::U8);
}

TEST(Dtype, WrapsAtItsWidth) {
  EXPECT_EQ(WrapTo(Dtype::I8, 200), -56);
  EXPECT_EQ(WrapTo(Dtype::U16, -1), 65535);
  EXPECT_EQ(WrapTo(Dtype::I64, Int128{1} << 63), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(WrapTo(Dtype::Bool, 256), 1);
}

}  // namespace
}  // namespace uopd::ir
