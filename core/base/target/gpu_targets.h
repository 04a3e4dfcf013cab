// SPDX-License-Identifier: MIT
// Targets of GPUs by the name of their architecture: what is known of a chip without having one.
// Drivers begin with these facts and replace what their device says; tests and uopd-opt compile for
// them.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/target/target.h"

namespace uopd {

// "sm_80" and other compute capabilities, also with the suffix "a"; "gfx90a", "gfx942", "gfx1100",
// "gfx1201", "opencl" and "metal": devices with what every device of that kind has. nullopt: no
// such name.
std::optional<Target> GpuTarget(std::string_view arch);

// What instructions of one thread chips of a compute capability (80 is 8.0) have. Source: the PTX
// ISA, ex2, max and cvt.
void AddNvidiaInstructions(int capability, Target& target);
// The names that GpuTarget knows.
std::vector<std::string_view> GpuArchitectures();

}  // namespace uopd
