// SPDX-License-Identifier: MIT
#include "core/codegen/machine.h"

#include "core/codegen/cpu/machine.h"
#include "core/codegen/gpu/machine.h"

namespace uopd::codegen {

const Machine& MachineOf(const Target& target) { return target.blocks ? kGpuMachine : kCpuMachine; }

}  // namespace uopd::codegen
