// SPDX-License-Identifier: MIT
#include "core/codegen/machine.h"

#include "core/codegen/cpu/machine.h"
#include "core/codegen/gpu/machine.h"

namespace uopd::codegen {

const Machine& MachineOf(const Target& target) { return target.blocks ? kGpuMachine : kCpuMachine; }

bool IsFor(Machines machines, const Target& target) {
  const bool is_gpu = MachineOf(target).kind == Machine::Kind::kGpu;
  return machines == Machines::kAll || (machines == Machines::kGpus) == is_gpu;
}

std::string_view Name(Machines machines) {
  return machines == Machines::kAll ? "all" : machines == Machines::kCpus ? "CPUs" : "GPUs";
}

}  // namespace uopd::codegen
