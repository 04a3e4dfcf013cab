// SPDX-License-Identifier: MIT
// The features of the processor that kernels may use, where an operator says which. Machines of one
// fleet with equal baselines compile equal kernels, whichever processors they have.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace uopd::devices::cpu {

// Every feature that can be detected, and whether the machine has it: "avx2" -> true.
using MachineFeatures = std::map<std::string, bool, std::less<>>;

// Reads the features of the machine that runs this process. AMX is true only if the system permits
// it to this process.
MachineFeatures ReadMachineFeatures();

// "AMD EPYC 9654 96-Core Processor", as the system says. Empty if it does not.
std::string ModelName();

// "+adx,+aes,...", sorted: all features that the machine has.
std::string FeaturesText(const MachineFeatures& machine);

// As above, of the baseline that `text` names: items separated by commas, from the left to the
// right.
//   x86-64, x86-64-v2, x86-64-v3, x86-64-v4   the features of this level
//   avx2                                      the feature, and those that it needs
//   -avx512f                                  without the feature, and without those that need it
// Items without a minus are added to x86-64. If all items have one, they are taken from the
// machine's own features. INVALID_ARGUMENT: the machine lacks a feature, nothing is called so, or a
// feature of x86-64 is taken away.
absl::StatusOr<std::string> ReadBaseline(std::string_view text, const MachineFeatures& machine);

}  // namespace uopd::devices::cpu
