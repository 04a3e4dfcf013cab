// SPDX-License-Identifier: MIT
#include "devices/cpu/measure_speeds.h"

#include <gtest/gtest.h>

#include <cmath>

#include "devices/cpu/cpu_target.h"

namespace uopd::devices::cpu {
namespace {

TEST(MeasureSpeedsTest, MeasuresWhatThisMachineHas) {
  const Target target = Describe(MakeCpuTarget(std::nullopt), 2);
  ThreadPool threads(2, std::chrono::microseconds(1000));
  const Speeds speeds = MeasureSpeeds(target, threads, int64_t{1} << 30);
  for (const Speeds::Field& field : Speeds::Fields()) {
    EXPECT_GE(speeds.*field.value, 0) << field.name;
    EXPECT_TRUE(std::isfinite(speeds.*field.value)) << field.name;
  }
  EXPECT_GT(speeds.thread_ns, 0);
  EXPECT_EQ(speeds.launch_cycles, 0) << "a figure of GPUs";
#if defined(__x86_64__)
  EXPECT_GT(speeds.clock_ghz, 0);
  EXPECT_EQ(speeds.vector_products > 0, target.has_fma && target.vector_bytes >= 32);
  EXPECT_EQ(speeds.product_cycles > 0, speeds.vector_products > 0);
#endif
}

// A daemon in a small control group must not be ended for a measurement.
TEST(MeasureSpeedsTest, TakesNoMoreMemoryThanItMay) {
  const Target target = Describe(MakeCpuTarget(std::nullopt), 1);
  ThreadPool threads(1, std::chrono::microseconds(0));
  const Speeds speeds = MeasureSpeeds(target, threads, (1 << 20) - 1);
  EXPECT_EQ(speeds.memory_bytes, 0);
  EXPECT_EQ(speeds.thread_ns, 0) << "there is no other thread";
}

TEST(MeasureSpeedsTest, WithoutMultiplyAddsThereIsNothingToMeasure) {
  const Target target = Describe(MakeCpuTarget(""), 1);
  ThreadPool threads(1, std::chrono::microseconds(0));
  const Speeds speeds = MeasureSpeeds(target, threads, 0);
  EXPECT_EQ(speeds.vector_products, 0);
  EXPECT_EQ(speeds.product_cycles, 0);
}

}  // namespace
}  // namespace uopd::devices::cpu
