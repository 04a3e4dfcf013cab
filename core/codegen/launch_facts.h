// SPDX-License-Identifier: MIT
// What a launch of a kernel needs and how long it takes, as far as its lines say.
#pragma once
#include "core/base/status.h"

namespace uopd::codegen {

struct KernelWork;

// Fills in KernelWork::kernel.launch and the estimates of time.
absl::Status DescribeLaunch(KernelWork& work);

// Whether a launch of the kernel is long (Machine::long_launch_ns) if its lines are estimated to
// take so long.
bool IsLongLaunch(const KernelWork& work, double estimate_ns);

}  // namespace uopd::codegen
