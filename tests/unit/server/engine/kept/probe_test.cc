// SPDX-License-Identifier: MIT
#include "server/engine/kept/probe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "tests/support/tensor_interpreter.h"

namespace uopd::engine {
namespace {

constexpr ProbeKind kAllProbes[] = {ProbeKind::kOrdinary, ProbeKind::kWide, ProbeKind::kTiny,
                                    ProbeKind::kMixed};

using ir::Dtype;

constexpr Dtype kFloats[] = {Dtype::F64,  Dtype::F32,    Dtype::F16,
                             Dtype::BF16, Dtype::F8E4M3, Dtype::F8E5M2};

std::vector<double> Floats(Dtype dtype, std::string_view bytes) {
  const auto elements = static_cast<int64_t>(bytes.size()) / ir::ByteSize(dtype);
  return uopd::test::HostArray::FromBytes(dtype, {elements}, bytes).ToDoubles();
}

TEST(ProbeTest, TheSeedDecides) {
  for (const ProbeKind kind : kAllProbes) {
    const std::string data = ProbeData(Dtype::F32, 400, kind, 1);
    EXPECT_EQ(data.size(), 400u);
    EXPECT_EQ(ProbeData(Dtype::F32, 400, kind, 1), data);
    EXPECT_NE(ProbeData(Dtype::F32, 400, kind, 2), data);
  }
}

TEST(ProbeTest, AllFloatsAreNumbersOfBothSigns) {
  for (const Dtype dtype : kFloats) {
    for (const ProbeKind kind : kAllProbes) {
      const std::vector<double> values =
          Floats(dtype, ProbeData(dtype, 1000 * ir::ByteSize(dtype), kind, 3));
      int negative = 0;
      for (const double v : values) {
        EXPECT_TRUE(std::isfinite(v)) << Name(dtype);
        negative += v < 0 ? 1 : 0;
      }
      EXPECT_GT(negative, 300) << Name(dtype);
      EXPECT_LT(negative, 700) << Name(dtype);
      EXPECT_GT(std::set<double>(values.begin(), values.end()).size(), 20u) << Name(dtype);
    }
  }
}

TEST(ProbeTest, SomeAreDenormal) {
  for (const Dtype dtype : {Dtype::F32, Dtype::BF16}) {
    int denormal = 0, normal = 0;
    for (const double v : Floats(dtype, ProbeData(dtype, 4000, ProbeKind::kTiny, 3)))
      ++(std::fpclassify(static_cast<float>(v)) == FP_SUBNORMAL ? denormal : normal);
    EXPECT_GT(denormal, 100) << Name(dtype);
    EXPECT_GT(normal, 100) << Name(dtype);
  }
}

TEST(ProbeTest, AMixedOneHasAThirdOfEachKind) {
  constexpr size_t kThird = 500;
  const std::vector<double> values =
      Floats(Dtype::F32, ProbeData(Dtype::F32, 4 * (3 * kThird - 1), ProbeKind::kMixed, 3));
  double least[3] = {INFINITY, INFINITY, INFINITY}, most[3] = {};
  for (size_t i = 0; i < values.size(); ++i) {
    least[i / kThird] = std::min(least[i / kThird], std::abs(values[i]));
    most[i / kThird] = std::max(most[i / kThird], std::abs(values[i]));
  }
  EXPECT_GT(least[0], 0.1);
  EXPECT_LT(most[0], 2.1);
  EXPECT_LT(least[1], 0.01);
  EXPECT_GT(most[1], 100);
  EXPECT_LT(most[2], 1e-36);
}

TEST(ProbeTest, ProgramsWhoseRunsAreLongHaveOne) {
  EXPECT_EQ(ProbesFor(1'000'000).size(), 3u);
  EXPECT_EQ(ProbesFor(300'000'000).size(), 1u);
}

// What a probe is for: sums in another order are seen.
TEST(ProbeTest, AnotherOrderOfASumGivesOtherBits) {
  for (const ProbeKind kind : kAllProbes) {
    int differs = 0;
    constexpr int kSums = 200, kTerms = 16;
    for (uint64_t seed = 0; seed < kSums; ++seed) {
      const auto terms = Floats(Dtype::F32, ProbeData(Dtype::F32, 4 * kTerms, kind, seed));
      float forward = 0, backward = 0, halves[2] = {};
      for (size_t i = 0; i < kTerms; ++i) {
        forward += static_cast<float>(terms[i]);
        backward += static_cast<float>(terms[kTerms - 1 - i]);
        halves[i % 2] += static_cast<float>(terms[i]);
      }
      differs += forward != backward || forward != halves[0] + halves[1] ? 1 : 0;
    }
    // Sums of denormals are exact. Their purpose is another one.
    if (kind == ProbeKind::kTiny) continue;
    EXPECT_GT(differs, kSums / 2) << static_cast<int>(kind);
  }
}

TEST(ProbeTest, IntegersAreSmall) {
  for (const Dtype dtype : {Dtype::I8, Dtype::U8, Dtype::I64}) {
    const auto size = static_cast<size_t>(ir::ByteSize(dtype));
    const std::string data = ProbeData(dtype, 800, ProbeKind::kWide, 3);
    for (size_t at = 0; at < data.size(); at += size) {
      int64_t value = 0;
      std::memcpy(&value, data.data() + at, size);
      if (dtype == Dtype::I8) value = static_cast<int8_t>(value);
      EXPECT_LT(std::abs(value), 120) << Name(dtype);
    }
  }
  for (const char c : ProbeData(Dtype::Bool, 100, ProbeKind::kWide, 3))
    EXPECT_TRUE(c == 0 || c == 1);
}

TEST(ProbeTest, NansAreTheSameAndZeroesAreNot) {
  const auto bytes = [](std::initializer_list<uint32_t> values) {
    std::string out;
    for (const uint32_t v : values) out.append(reinterpret_cast<const char*>(&v), 4);
    return out;
  };
  const std::string a = bytes({0x3f800000, 0x7fc00000, 0}), b = bytes({0x3f800000, 0xffc00001, 0});
  EXPECT_TRUE(SameElements(Dtype::F32, a, a));
  EXPECT_TRUE(SameElements(Dtype::F32, a, b));
  EXPECT_FALSE(SameElements(Dtype::I32, a, b));
  EXPECT_FALSE(SameElements(Dtype::F32, bytes({0}), bytes({0x80000000})));
  EXPECT_FALSE(SameElements(Dtype::F32, bytes({0x7fc00000}), bytes({0x7f800000})));
  EXPECT_FALSE(SameElements(Dtype::F32, bytes({0}), bytes({0, 0})));
}

}  // namespace
}  // namespace uopd::engine
