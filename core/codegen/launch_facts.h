// SPDX-License-Identifier: MIT
// What a launch of a kernel needs and how long it takes, as far as its lines say.
#pragma once
#include "core/base/status.h"

namespace uopd::codegen {

struct KernelWork;

// Decides KernelWork::way before PIPELINE is applied. Copies of boxes need room for their barriers, and loops around such copies do
// not poll; threads that copy alone cannot wait for the block. What does not fit is left out: first the threads, then the boxes.
absl::Status ChooseCopies(KernelWork& work);

// Fills in KernelWork::kernel.launch and the estimates of time.
absl::Status DescribeLaunch(KernelWork& work);

}  // namespace uopd::codegen
