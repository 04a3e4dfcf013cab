// SPDX-License-Identifier: MIT
// Random opts on a device with blocks: what it computes, against the interpreter of kernel graphs.
//
// UOPD_FUZZ_DEVICE names the device (default CL:0, and for rings INTERP:2, which copies boxes),
// UOPD_FUZZ_DEVICE_OPTS the number of lists of opts, UOPD_FUZZ_SEED their seed.
#include "gtest/gtest.h"
#include "tests/support/device/device_run.h"
#include "tests/support/device/named_device.h"
#include "tests/support/environment.h"
#include "tests/support/opts/dependent_cases.h"
#include "tests/support/opts/opts_fuzz.h"
#include "tests/support/opts/ring_cases.h"

namespace uopd {
namespace {

class DeviceOptsTest : public ::testing::Test {
 protected:
  // Tries `lists` lists of opts. How many kernels had roles.
  static int64_t Fuzz(devices::Device& device, const std::vector<tests::KernelCase>& cases,
                      int64_t lists) {
    const auto run = [&](ir::UOpContext& ctx, const codegen::LoweredKernel& kernel,
                         tests::Memory& memory, const std::map<std::string, int64_t>& variables) {
      return tests::RunOnDevice(device, ctx, kernel, memory, variables);
    };
    return tests::FuzzDeviceOpts(cases, device.target(), run,
                                 static_cast<uint64_t>(test::FromEnvironment("UOPD_FUZZ_SEED", 11)),
                                 lists);
  }
};

// Boxes that are copied through rings, by warps of their own too.
TEST_F(DeviceOptsTest, RingsKeepResults) {
  const auto device = tests::OpenNamedDevice("INTERP:2");
  if (tests::MaySkip(device.status())) GTEST_SKIP() << device.status().message();
  ASSERT_TRUE(device.ok()) << device.status();
  if (!(*device)->target().bulk_copies)
    GTEST_SKIP() << "the device that UOPD_FUZZ_DEVICE names copies no boxes";
  const int64_t lists = test::CasesFromEnvironment("UOPD_FUZZ_DEVICE_OPTS", 100);
  EXPECT_GE(Fuzz(**device, tests::RingCases(), lists), lists / 50);
}

TEST_F(DeviceOptsTest, LegalOptsKeepResults) {
  const auto device = tests::OpenNamedDevice();
  if (tests::MaySkip(device.status())) GTEST_SKIP() << device.status().message();
  ASSERT_TRUE(device.ok()) << device.status();
  ASSERT_TRUE((*device)->target().blocks) << (*device)->info().name;
  Fuzz(**device, tests::OptsCases(), test::CasesFromEnvironment("UOPD_FUZZ_DEVICE_OPTS", 100));
}

// Groups of threads of several sizes, each of which uses what the one before it has found.
TEST_F(DeviceOptsTest, DependentReductionsKeepResults) {
  const auto device = tests::OpenNamedDevice();
  if (tests::MaySkip(device.status())) GTEST_SKIP() << device.status().message();
  ASSERT_TRUE(device.ok()) << device.status();
  const int64_t lists = test::CasesFromEnvironment("UOPD_FUZZ_DEVICE_OPTS", 100);
  Fuzz(**device, tests::DependentCases(3, lists / 20), lists / 5);
}

}  // namespace
}  // namespace uopd
