// SPDX-License-Identifier: MIT
#include "devices/cpu/cpu_baseline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "devices/cpu/cpu_target.h"

namespace uopd::devices::cpu {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// All features that can be detected, of which the machine has these.
MachineFeatures MachineWith(const std::vector<std::string>& has) {
  MachineFeatures out;
  for (const auto& [name, here] : ReadMachineFeatures()) out[name] = false;
  for (const std::string& name : has) out[name] = true;
  return out;
}

MachineFeatures With(MachineFeatures machine, const std::vector<std::string>& more) {
  for (const std::string& name : more) machine[name] = true;
  return machine;
}

const std::vector<std::string> kV3 = {"64bit", "avx",  "avx2",   "bmi",    "bmi2",  "cmov",
                                      "crc32", "cx16", "cx8",    "f16c",   "fma",   "fxsr",
                                      "lzcnt", "mmx",  "movbe",  "popcnt", "sahf",  "sse",
                                      "sse2",  "sse3", "sse4.1", "sse4.2", "ssse3", "xsave"};

std::vector<std::string> Items(const absl::StatusOr<std::string>& features) {
  EXPECT_TRUE(features.ok()) << features.status();
  if (!features.ok()) return {};
  return absl::StrSplit(*features, ',');
}

class CpuBaselineTest : public ::testing::Test {
 protected:
  void SetUp() override {
#if !defined(__x86_64__)
    GTEST_SKIP() << "there are no baselines for other processors";
#endif
  }
  // As a processor of AMD, and one of Intel with matrix registers.
  const MachineFeatures old_ = MachineWith(kV3), amd_ = With(old_, {"sse4a", "clzero", "aes"}),
                        intel_ = With(old_, {"amx-tile", "amx-bf16", "avx512f", "avx512bw",
                                             "avx512vl", "avx512dq", "avx512cd", "evex512", "adx"});
};

TEST_F(CpuBaselineTest, ALevelIsTheSameOnEveryMake) {
  for (const char* level : {"x86-64", "x86-64-v2", "x86-64-v3"}) {
    const auto features = ReadBaseline(level, amd_);
    ASSERT_TRUE(features.ok()) << features.status();
    EXPECT_EQ(*features, *ReadBaseline(level, intel_));
    // Everything that decides an object.
    EXPECT_EQ(MakeCpuTarget(*features).Toolchain(),
              MakeCpuTarget(*ReadBaseline(level, intel_)).Toolchain());
    EXPECT_THAT(Items(features), Not(Contains("+clzero")));
    EXPECT_THAT(Items(features), Not(Contains("+amx-tile")));
  }
}

TEST_F(CpuBaselineTest, ALevelHasItsFeatures) {
  const auto v2 = Items(ReadBaseline("x86-64-v2", old_)),
             v3 = Items(ReadBaseline("x86-64-v3", old_));
  for (const char* feature : {"+sse4.2", "+ssse3", "+popcnt", "+cx16"}) {
    EXPECT_THAT(v2, Contains(feature));
    EXPECT_THAT(v3, Contains(feature));
  }
  for (const char* feature : {"+avx", "+avx2", "+fma", "+bmi2", "+f16c"}) {
    EXPECT_THAT(v2, Not(Contains(feature)));
    EXPECT_THAT(v3, Contains(feature));
  }
  EXPECT_THAT(v3, Not(Contains("+avx512f")));
  EXPECT_THAT(Items(ReadBaseline("x86-64-v4", intel_)), Contains("+avx512vl"));
  EXPECT_THAT(Items(ReadBaseline("x86-64-v4", intel_)), Not(Contains("+amx-tile")));
  EXPECT_EQ(MakeCpuTarget(*ReadBaseline("x86-64-v2", intel_)).vector_bytes, 16);
  EXPECT_EQ(MakeCpuTarget(*ReadBaseline("x86-64-v3", intel_)).vector_bytes, 32);
  EXPECT_EQ(MakeCpuTarget(*ReadBaseline("x86-64-v4", intel_)).vector_bytes, 64);
  EXPECT_EQ(MakeCpuTarget(*ReadBaseline("x86-64-v3", intel_)).tune, "x86-64-v3");
}

TEST_F(CpuBaselineTest, NamesAddAndTakeAway) {
  const auto named = Items(ReadBaseline("avx2, fma,-avx512f", intel_));
  for (const char* feature : {"+avx2", "+fma", "+avx", "+sse4.2"})  // with what they need
    EXPECT_THAT(named, Contains(feature));
  EXPECT_THAT(named, Not(Contains("+bmi2")));
  // A minus takes away what needs the feature, too.
  const auto less = Items(ReadBaseline("x86-64-v4,-avx512f", intel_));
  EXPECT_THAT(less, Contains("+avx2"));
  EXPECT_THAT(less, Not(Contains("+avx512vl")));
  // Without any item to begin with: from the machine's own.
  const auto own = Items(ReadBaseline("-avx512f", intel_));
  EXPECT_THAT(own, Contains("+amx-bf16"));
  EXPECT_THAT(own, Contains("+adx"));
  EXPECT_THAT(own, Not(Contains("+avx512bw")));
}

TEST_F(CpuBaselineTest, TheAnswerNamesWhatTheMachineLacks) {
  const auto v4 = ReadBaseline("x86-64-v4", amd_).status();
  EXPECT_TRUE(absl::IsInvalidArgument(v4));
  EXPECT_THAT(std::string(v4.message()), HasSubstr("no avx512"));
  EXPECT_THAT(std::string(v4.message()), HasSubstr("x86-64-v4 needs"));
  EXPECT_THAT(std::string(ReadBaseline("x86-64-v2,amx-bf16", amd_).status().message()),
              HasSubstr("no amx-bf16"));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadBaseline("avx512bf16", amd_).status()));
}

TEST_F(CpuBaselineTest, WhatEveryProgramNeedsStays) {
  for (const char* wrong : {"-sse2", "-sse", "-64bit", "x86-64-v3,-fxsr", "avx2,-cmov"}) {
    const absl::Status status = ReadBaseline(wrong, intel_).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong;
    EXPECT_THAT(std::string(status.message()), HasSubstr("every x86-64 program needs")) << wrong;
  }
  EXPECT_TRUE(ReadBaseline("-sse3", intel_).ok());
}

TEST_F(CpuBaselineTest, TheAnswerNamesWhatNobodyKnows) {
  for (const char* wrong : {"avx3", "x86-64-v9", "-nonsense", "avx2,,fma", " ", "avx2;fma", "AVX2",
                            "+avx2", "-x86-64-v3"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ReadBaseline(wrong, intel_).status())) << wrong;
  }
  EXPECT_THAT(std::string(ReadBaseline("avx2,avx3", intel_).status().message()),
              HasSubstr("\"avx3\""));
}

}  // namespace
}  // namespace uopd::devices::cpu
