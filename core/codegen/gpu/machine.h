// SPDX-License-Identifier: MIT
// The row of GPUs (core/codegen/machine.h).
#pragma once
#include "core/codegen/machine.h"

namespace uopd::codegen {
extern const Machine kGpuMachine;
}  // namespace uopd::codegen
