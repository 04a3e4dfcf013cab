// SPDX-License-Identifier: MIT
#include "core/ir/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

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

// Halfway between two neighbours rounds away from zero, also where they are denormals of f32.
TEST(Dtype, RoundsTf32HalfAwayFromZero) {
  constexpr uint32_t kStep = 1 << 13;  // the bits that tf32 drops
  const Dtype d = Dtype::TF32;
  for (uint64_t bits = 0; bits < 0x7f7fe000; bits += kStep * 977) {
    const double lo = DecodeFloat(d, bits), hi = DecodeFloat(d, bits + kStep),
                 middle = lo + (hi - lo) / 2;
    ASSERT_LT(lo, hi);
    EXPECT_EQ(RoundTo(d, middle), hi);
    EXPECT_EQ(RoundTo(d, -middle), -hi);
    EXPECT_EQ(RoundTo(d, std::nextafter(middle, 0)), lo);
    EXPECT_EQ(EncodeFloat(d, lo), bits);
    EXPECT_EQ(EncodeFloat(d, middle), bits + kStep);
    EXPECT_EQ(DecodeFloat(d, bits | (kStep - 1)), lo) << "low bits of a word do not count";
    EXPECT_EQ(DecodeFloat(Dtype::F32, bits), lo);
  }
  EXPECT_EQ(RoundTo(d, 3.4028234663852886e38), kInf);  // the largest f32
  EXPECT_EQ(RoundTo(d, -kInf), -kInf);
  EXPECT_TRUE(std::isnan(DecodeFloat(d, EncodeFloat(d, std::nan("")))));
  EXPECT_TRUE(std::signbit(RoundTo(d, -1e-60)));
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
  EXPECT_EQ(Promote(Dtype::TF32, Dtype::F16), Dtype::F32);
  EXPECT_EQ(Promote(Dtype::I64, Dtype::F16), Dtype::F16);
  EXPECT_EQ(Promote(Dtype::Bool, Dtype::U8), Dtype::U8);
}

// The least upper bound in the lattice whose edges are listed here; "float" is any float, as which
// a mix of i64 and u64 becomes f32.
TEST(Dtype, PromotionIsTheLeastUpperBoundOfTheLattice) {
  enum : int { kWeakFloat = kDtypeCount, kNodes };
  std::vector<std::pair<int, int>> edges;
  auto edge = [&](auto a, std::initializer_list<Dtype> to) {
    for (Dtype b : to) edges.emplace_back(static_cast<int>(a), static_cast<int>(b));
  };
  using enum Dtype;
  edge(Bool, {Index}), edge(Index, {I8, U8}), edge(I8, {I16}), edge(I16, {I32}), edge(I32, {I64});
  edge(U8, {I16, U16}), edge(U16, {I32, U32}), edge(U32, {I64, U64});
  edges.emplace_back(static_cast<int>(I64), kWeakFloat);
  edges.emplace_back(static_cast<int>(U64), kWeakFloat);
  edge(kWeakFloat, {F8E4M3, F8E5M2}), edge(F8E4M3, {F16, BF16}), edge(F8E5M2, {F16, BF16});
  edge(F16, {F32}), edge(BF16, {F32}), edge(F32, {F64});
  edge(F8E4M3, {TF32}), edge(F8E5M2, {TF32}), edge(TF32, {F32});
  bool above[kNodes][kNodes] = {};
  for (int i = 0; i < kNodes; ++i) above[i][i] = true;
  for (int round = 0; round < kNodes; ++round) {
    for (auto [a, b] : edges) {
      for (int i = 0; i < kNodes; ++i) above[i][b] |= above[i][a];
    }
  }
  // Lower ends of chains come first; f16 before bf16.
  const int order[] = {int(Bool),   int(Index), int(I8),   int(U8),   int(I16),   int(U16),
                       int(I32),    int(U32),   int(I64),  int(U64),  kWeakFloat, int(F8E4M3),
                       int(F8E5M2), int(F16),   int(BF16), int(TF32), int(F32),   int(F64)};
  for (int a = int(Index); a < kDtypeCount; ++a) {
    for (int b = int(Index); b < kDtypeCount; ++b) {
      int want = -1;
      for (int d : order) {
        if (above[a][d] && above[b][d]) {
          want = d == kWeakFloat ? int(F32) : d;
          break;
        }
      }
      EXPECT_EQ(Name(Promote(static_cast<Dtype>(a), static_cast<Dtype>(b))),
                Name(static_cast<Dtype>(want)))
          << Name(static_cast<Dtype>(a)) << " " << Name(static_cast<Dtype>(b));
    }
  }
}

TEST(Dtype, WrapsAtItsWidth) {
  EXPECT_EQ(WrapTo(Dtype::I8, 200), -56);
  EXPECT_EQ(WrapTo(Dtype::U16, -1), 65535);
  EXPECT_EQ(WrapTo(Dtype::I64, Int128{1} << 63), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(WrapTo(Dtype::Bool, 256), 1);
}

}  // namespace
}  // namespace uopd::ir
