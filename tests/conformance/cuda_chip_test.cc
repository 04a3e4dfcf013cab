// SPDX-License-Identifier: MIT
// The conformance tests on a chip of NVIDIA, through the driver of the machine: once with CUDA C++,
// once with PTX. They are skipped where there is no such chip. A machine with one chip opens it
// twice, since the tests need two devices.
#include "devices/cuda/cuda_device.h"
#include "tests/conformance/device_conformance.h"

namespace uopd::devices {
namespace {

constexpr char kCudaNothing[] = R"(
extern "C" __global__ void k(int* a, int* b, long long n, const volatile int* stop) {}
)";
constexpr char kCudaAdder[] = R"(
extern "C" __global__ void k(int* a, int* b, long long n, const volatile int* stop) {
  b[0] += a[0] + (int)n;
}
)";
constexpr char kPtxNothing[] = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 n, .param .u64 stop) {
  ret;
}
)";
constexpr char kPtxAdder[] = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 n, .param .u64 stop) {
  .reg .b64 %rd<3>;
  .reg .b32 %r<4>;
  ld.param.u64 %rd0, [a];
  ld.param.u64 %rd1, [b];
  ld.param.u64 %rd2, [n];
  ld.global.u32 %r0, [%rd0];
  ld.global.u32 %r1, [%rd1];
  cvt.u32.u64 %r2, %rd2;
  add.u32 %r3, %r0, %r1;
  add.u32 %r3, %r3, %r2;
  st.global.u32 [%rd1], %r3;
  ret;
}
)";

std::string WhyNoChip() {
  const auto driver = cuda::CudaDriver::Process();
  if (!driver.ok()) return std::string(driver.status().message());
  return cuda::CountCudaDevices() > 0 ? "" : "The driver shows no device";
}

// Without NVRTC the device takes PTX, which the other case tests.
std::string WhyNoCudaC() {
  if (std::string why = WhyNoChip(); !why.empty()) return why;
  const auto nvrtc = cuda::LoadNvrtc();
  return nvrtc.ok() ? "" : std::string(nvrtc.status().message());
}

absl::StatusOr<std::shared_ptr<Device>> OpenChip(int index, const RegistryOptions& options,
                                                 bool ptx) {
  return cuda::CudaDevice::Open({.index = index < cuda::CountCudaDevices() ? index : 0,
                                 .memory_limit_bytes = options.memory_limit_bytes,
                                 .pattern = options.memory_pattern,
                                 .ptx = ptx});
}

Case ChipCase(bool ptx) {
  Case out{"CUDA", CodeFormat::kCudaC, kCudaNothing, kCudaAdder};
  out.always_late = true;
  out.missing = WhyNoCudaC;
  out.open = [](int index, const RegistryOptions& options) {
    return OpenChip(index, options, false);
  };
  if (ptx) {
    out.format = CodeFormat::kPtx;
    out.source = kPtxNothing;
    out.adder = kPtxAdder;
    out.missing = WhyNoChip;
    out.open = [](int index, const RegistryOptions& options) {
      return OpenChip(index, options, true);
    };
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(CudaChip, DeviceConformance,
                         testing::Values(ChipCase(false), ChipCase(true)),
                         [](const testing::TestParamInfo<Case>& info) {
                           return info.param.format == CodeFormat::kPtx ? "PTX" : "CUDA_C";
                         });

}  // namespace
}  // namespace uopd::devices
