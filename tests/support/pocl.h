// SPDX-License-Identifier: MIT
// OpenCL in tests: PoCL, which executes kernels on the host's processors.
//
// A test program calls UsePocl before it opens a device, while it has one thread. Settings that the
// environment has already stay as they are.
#pragma once
#include <cstdlib>
#include <string>

#include "devices/opencl/opencl_device.h"
#include "gtest/gtest.h"

namespace uopd::tests {

// Two devices, and a folder of kernels that the test programs share.
inline bool UsePocl() {
  setenv("POCL_DEVICES", "pthread pthread", 0);
  setenv("POCL_CACHE_DIR", (testing::TempDir() + "uopd_pocl").c_str(), 0);
  return true;
}

// Why tests with OpenCL devices cannot run here; "" if they can. If the variable
// UOPD_REQUIRE_OPENCL is set, they are to run and fail.
inline std::string WhyNoOpenCl() {
  if (std::getenv("UOPD_REQUIRE_OPENCL") != nullptr || devices::opencl::CountDevices() >= 2) {
    return "";
  }
  return "This machine has not two OpenCL devices; PoCL (pocl-opencl-icd) offers them";
}

}  // namespace uopd::tests
