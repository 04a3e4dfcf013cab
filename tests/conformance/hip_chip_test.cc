// SPDX-License-Identifier: MIT
// The conformance tests on a chip of AMD, through the HIP runtime of the machine. They are skipped
// where there is no such chip. A machine with one chip opens it twice, since the tests need two
// devices.
#include "devices/hip/hip_device.h"
#include "tests/conformance/device_conformance.h"

namespace uopd::devices {
namespace {

constexpr char kHipNothing[] = R"(target triple = "amdgcn-amd-amdhsa"
define protected amdgpu_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %b, i64 %n, ptr addrspace(1) %stop) {
  ret void
}
)";
constexpr char kHipAdder[] = R"(target triple = "amdgcn-amd-amdhsa"
define protected amdgpu_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %b, i64 %n, ptr addrspace(1) %stop) {
  %x = load i32, ptr addrspace(1) %a
  %y = load i32, ptr addrspace(1) %b
  %n32 = trunc i64 %n to i32
  %xy = add i32 %x, %y
  %sum = add i32 %xy, %n32
  store i32 %sum, ptr addrspace(1) %b
  ret void
}
)";

std::string WhyNoHipChip() {
  const auto driver = hip::HipDriver::Process();
  if (!driver.ok()) return std::string(driver.status().message());
  return hip::CountHipDevices() > 0 ? "" : "HIP shows no device";
}

Case HipChipCase() {
  Case out{"AMD", CodeFormat::kAmdgpuIr, kHipNothing, kHipAdder};
  out.always_late = true;
  out.missing = WhyNoHipChip;
  out.open = [](int index,
                const RegistryOptions& options) -> absl::StatusOr<std::shared_ptr<Device>> {
    return hip::HipDevice::Open({.index = index < hip::CountHipDevices() ? index : 0,
                                 .memory_limit_bytes = options.memory_limit_bytes,
                                 .pattern = options.memory_pattern});
  };
  return out;
}

INSTANTIATE_TEST_SUITE_P(HipChip, DeviceConformance, testing::Values(HipChipCase()),
                         [](const testing::TestParamInfo<Case>&) { return "IR"; });

}  // namespace
}  // namespace uopd::devices
