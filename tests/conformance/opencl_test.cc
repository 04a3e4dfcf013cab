// SPDX-License-Identifier: MIT
// The conformance tests on OpenCL devices. They need two devices; PoCL offers as many as a variable
// of the environment names.
#include "tests/conformance/device_conformance.h"
#include "tests/support/pocl.h"

namespace uopd::devices {
namespace {

const bool kUsesPocl = tests::UsePocl();

constexpr char kOpenClNothing[] =
    "kernel void k(global int* a, global int* b, long n, global volatile int* stop) {}\n";
constexpr char kOpenClAdder[] = R"(
kernel void k(global int* a, global int* b, long n, global volatile int* stop) {
  b[0] += a[0] + (int)n;
}
)";

Case OpenClCase(int force_async_us) {
  Case out{"CL", CodeFormat::kOpenClC, kOpenClNothing, kOpenClAdder, force_async_us};
  out.always_late = true;
  out.missing = tests::WhyNoOpenCl;
  return out;
}

INSTANTIATE_TEST_SUITE_P(OpenCl, DeviceConformance,
                         testing::Values(OpenClCase(-1), OpenClCase(200)),
                         [](const testing::TestParamInfo<Case>& info) {
                           return NameOf(info.param);
                         });

}  // namespace
}  // namespace uopd::devices
