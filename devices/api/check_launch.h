// SPDX-License-Identifier: MIT
// The checks of every launch, the same on every device: the executable belongs to the device, the
// number of arguments is what the kernel takes, and the device's Target allows the shape. The
// buffers themselves are checked when they are known: at a launch or at a replay.
#pragma once
#include <span>

#include "core/base/status.h"
#include "devices/api/device.h"

namespace uopd::devices {

// Returns INVALID_ARGUMENT with the check that failed.
absl::Status CheckLaunch(const Device& device, const Executable& executable,
                         const LaunchShape& shape, size_t buffers, size_t vars);

// Whether the buffers hold the tensors of the launch's maps. A copy of a box may read and write all
// bytes of its tensor, so one that is larger than its buffer would be a hole. Returns
// INVALID_ARGUMENT. REQUIRES: CheckLaunch lets the launch pass; no buffer is null, and each offset
// is inside of its buffer.
absl::Status CheckTensorsFit(const Executable& executable, const LaunchShape& shape,
                             std::span<const BufferArg> buffers);

}  // namespace uopd::devices
