// SPDX-License-Identifier: MIT
// The device that UOPD_FUZZ_DEVICE names, or `otherwise`, with memory that is filled with a
// pattern. With UOPD_CUDA_SPECIFIC a CUDA device of capability 9.0 takes code for sm_90a
// (device.cuda_specific).
#pragma once
#include <memory>
#include <string>

#include "devices/api/device.h"

namespace uopd::tests {

absl::StatusOr<std::shared_ptr<devices::Device>> OpenNamedDevice(
    const std::string& otherwise = "CL:0");
// Whether a test may be skipped because the device does not open: not with UOPD_REQUIRE_OPENCL.
bool MaySkip(const absl::Status& opened);

}  // namespace uopd::tests
