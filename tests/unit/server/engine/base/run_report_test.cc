// SPDX-License-Identifier: MIT
#include "server/engine/base/run_report.h"

#include <gmock/gmock.h>

#include "core/base/text.h"
#include "server/engine/report/run_text.h"

namespace uopd::engine {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

Roof Example() {
  Roof roof;
  roof.ops_per_s[DtypeNumber::F32] = 100e9;
  roof.memory_bytes_per_s = 20e9;
  roof.cache_bytes_per_s = 200e9;
  roof.cache_bytes = 1e6;
  return roof;
}

TEST(RoofTest, TheSlowerOfArithmeticAndMemoryDecides) {
  const Roof roof = Example();
  EXPECT_DOUBLE_EQ(roof.LeastNs(DtypeNumber::F32, 1e9, 1e3), 1e7);  // 1 G operations
  EXPECT_DOUBLE_EQ(roof.LeastNs(DtypeNumber::F32, 1, 2e9), 1e8);    // 2 GB from memory
  EXPECT_DOUBLE_EQ(roof.LeastNs(DtypeNumber::F32, 1, 1e6), 5e3);    // 1 MB from caches
}

TEST(RoofTest, WhatIsUnknownSetsNoLimit) {
  EXPECT_EQ(Roof().LeastNs(DtypeNumber::F32, 1e9, 1e9), 0);
  EXPECT_DOUBLE_EQ(Example().LeastNs(DtypeNumber::I8, 1e9, 2e9), 1e8);
}

TEST(RunReportTest, TextEndsWithANoteWhenItIsFull) {
  RunReport report;
  const std::string line(99, 'x');
  while (report.AddText(line + "\n")) {
  }
  EXPECT_LE(report.text.size(), RunReport::kMaxTextBytes);
  EXPECT_GT(report.text.size(), RunReport::kMaxTextBytes - 200);
  EXPECT_THAT(report.text, EndsWith(" more bytes of text\n"));
  const std::string before = report.text;
  EXPECT_FALSE(report.AddText("short\n"));
  EXPECT_EQ(report.text, before);
}

TEST(RunReportTest, OneEndlessLineIsCutToo) {
  RunReport report;
  EXPECT_FALSE(report.AddText(std::string(2 * RunReport::kMaxTextBytes, 'x')));
  EXPECT_EQ(report.text, Cat("... ", 2 * RunReport::kMaxTextBytes, " more bytes of text\n"));
}

TEST(RunReportTest, ShortenKeepsTheFirstKernelsAndCountsTheRest) {
  RunReport report;
  report.AddText(std::string(1000, 'x') + "\n");
  for (int i = 0; i < 100; ++i) report.kernels.push_back({.kernel = "k", .ns = 2});
  RunReport whole = report;
  whole.Shorten(1 << 20);
  EXPECT_THAT(whole.kernels, SizeIs(100));
  EXPECT_EQ(whole.left_out, 0u);
  report.Shorten(700);
  EXPECT_LE(report.text.size(), 350u);
  EXPECT_GT(report.kernels.size(), 2u);
  EXPECT_LT(report.kernels.size(), 12u);
  EXPECT_EQ(report.kernels.size() + report.left_out, 100u);
  EXPECT_EQ(report.left_out_ns, 2.0 * static_cast<double>(report.left_out));
  report.Shorten(0);
  EXPECT_EQ(report.text, "");
  EXPECT_EQ(report.left_out, 100u);
}

TEST(RunTextTest, ALineHasTimeRatesAndShareOfTheRoof) {
  const KernelReport kernel{.kernel = "r_4_4_1234abcd",
                            .device = "CPU:0",
                            .ns = 2000,
                            .flops = 8000,
                            .bytes = 3000,
                            .roof_ns = 500};
  const std::string line = KernelLine(kernel, 7);
  EXPECT_THAT(line, StartsWith("    7  r_4_4_1234abcd "));
  EXPECT_THAT(line, HasSubstr("2.0 us"));
  EXPECT_THAT(line, HasSubstr("4.00 GFLOPS"));
  EXPECT_THAT(line, HasSubstr("1.50 GB/s"));
  EXPECT_THAT(line, EndsWith(" 25.0 % of roof"));
  KernelReport unknown = kernel;
  unknown.roof_ns = 0;
  EXPECT_THAT(KernelLine(unknown, 7), EndsWith("roof unknown"));
}

}  // namespace
}  // namespace uopd::engine
