// SPDX-License-Identifier: MIT
// The first passes of codegen that look at the whole kernel: what it
// computes, and which opts it gets.
#pragma once
#include <vector>

#include "core/base/status.h"
#include "core/codegen/opts/opt.h"

namespace uopd::codegen {

struct KernelWork;

// Fills in KernelWork::kernel: buffers, variables, work, opts and name. INVALID_ARGUMENT: the
// kernel declares a slot twice.
absl::Status ChooseOpts(KernelWork& work);

// The opts that KernelWork::options ask for: those of the caller, or what the heuristic chooses.
std::vector<Opt> OptsOf(KernelWork& work);
// Gives the kernel these opts, and the name that it has with them.
void UseOpts(KernelWork& work, std::vector<Opt> opts);

}  // namespace uopd::codegen
