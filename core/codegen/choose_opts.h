// SPDX-License-Identifier: MIT
// The first passes of codegen that look at the whole kernel: what it computes, and which opts it gets.
#pragma once
#include "core/base/status.h"

namespace uopd::codegen {

struct KernelWork;

// Fills in KernelWork::kernel: buffers, variables, work, opts and name. INVALID_ARGUMENT: the kernel declares a slot twice.
absl::Status ChooseOpts(KernelWork& work);

}  // namespace uopd::codegen
