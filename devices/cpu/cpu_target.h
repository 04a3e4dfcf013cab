// SPDX-License-Identifier: MIT
// What the CPU compiler generates code for, and what the rest of the daemon may know of it. Found
// by asking the processor for its features, never by its name: LLVM takes a Sapphire Rapids for a
// Rocket Lake.
#pragma once
#include <optional>
#include <string>

#include "core/base/target.h"

namespace uopd::devices::cpu {

struct CpuTarget {
  std::string triple;
  std::string arch;      // "x86_64"
  std::string cpu;       // base that features are added to: "x86-64"
  std::string tune;      // cost model, chosen by features: "x86-64-v4"
  std::string features;  // "+adx,+aes,...", sorted
  int vector_bytes = 16;

  bool Has(const std::string& feature) const;
  // Version of LLVM and all of the above, and the flags of cpu_compiler.cc: what decides compiled
  // bytes.
  std::string Toolchain() const;
};

// The machine that runs this. `features` (as above; "" is the plain base) replaces what the
// processor says.
CpuTarget MakeCpuTarget(const std::optional<std::string>& features);

// The same for the layers above. `threads`: that run a kernel.
Target Describe(const CpuTarget& target, int threads);

}  // namespace uopd::devices::cpu
