// SPDX-License-Identifier: MIT
// A device as codegen and the environment keys know it.
#pragma once
#include <string>

#include "core/codegen/codegen.h"
#include "core/schedule/schedule.h"
#include "devices/api/device_info.h"

namespace uopd::engine {

codegen::Target TargetOf(const devices::DeviceInfo& info);
schedule::KernelLimits KernelLimitsOf(const devices::DeviceInfo& info);

// Every version and every fact about the device that decides the code of a kernel: part of the
// environment keys of kernels and of tuning. Without the device's name: equal devices share.
std::string CodeEnvironment(const devices::DeviceInfo& info);

}  // namespace uopd::engine
