// SPDX-License-Identifier: MIT
// Errors of OpenCL as absl::Status. The message names the call and the code's name in the
// specification. Stateless.
#pragma once
#include <string>

#include "core/base/status.h"
#include "devices/opencl/opencl_types.h"

namespace uopd::devices::opencl {

// "CL_OUT_OF_RESOURCES"; "code -9999" for a code that the specification does not define.
std::string CodeName(ClInt code);

// OK for CL_SUCCESS. RESOURCE_EXHAUSTED: memory or other resources are used up. UNAVAILABLE: the
// device or the driver is missing. Every other code is INTERNAL.
absl::Status StatusOf(const char* call, ClInt code);

}  // namespace uopd::devices::opencl
