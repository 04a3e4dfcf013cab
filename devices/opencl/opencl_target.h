// SPDX-License-Identifier: MIT
// Target and limits of an OpenCL device, as its driver describes it. Stateless.
#pragma once
#include <string>

#include "core/base/target/target.h"
#include "devices/opencl/opencl_context.h"

namespace uopd::devices::opencl {

// OK if the daemon can use the device. Otherwise UNAVAILABLE, with what the device lacks.
absl::Status CheckUsable(const OpenClContext& context);

// REQUIRES: CheckUsable.
Target Describe(const OpenClContext& context);

// The options of every build. They keep the arithmetic that IEEE 754 prescribes: no fast
// mathematics, no flushed denormals, exact division and square root where the device has them.
std::string BuildOptions(const OpenClContext& context);

// A processor of the host, such as PoCL's devices.
bool IsHostProcessor(const OpenClContext& context);

// The host may access memory of the device while no work runs, and without mapping it, and this
// memory is not slower for kernels.
bool SharesMemoryWithHost(const OpenClContext& context);

}  // namespace uopd::devices::opencl
