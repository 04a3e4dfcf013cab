// SPDX-License-Identifier: MIT
// The checks of every launch, the same on every device: the executable belongs to the device, the
// number of arguments is what the kernel takes, and the device's Target allows the shape. The
// buffers themselves are checked when they are known: at a launch or at a replay.
#pragma once
#include "core/base/status.h"
#include "devices/api/device.h"

namespace uopd::devices {

// Returns INVALID_ARGUMENT with the check that failed.
absl::Status CheckLaunch(const Device& device, const Executable& executable,
                         const LaunchShape& shape, size_t buffers, size_t vars);

}  // namespace uopd::devices
