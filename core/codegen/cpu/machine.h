// SPDX-License-Identifier: MIT
// The row of CPUs (core/codegen/machine.h).
#pragma once
#include "core/codegen/machine.h"

namespace uopd::codegen {
extern const Machine kCpuMachine;
}  // namespace uopd::codegen
