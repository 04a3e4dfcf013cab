// SPDX-License-Identifier: MIT
// What the CPU compiler generates code for, and what the rest of the daemon may know about it. The
// features are read from the processor. Its name is not used: LLVM takes a Sapphire Rapids for a
// Rocket Lake.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/base/target/target.h"

namespace uopd::devices::cpu {

struct CpuTarget {
  std::string triple;
  std::string arch;      // "x86_64"
  std::string cpu;       // base to which the features are added: "x86-64"
  std::string tune;      // cost model, chosen by features: "x86-64-v4"
  std::string features;  // "+adx,+aes,...", sorted
  int vector_bytes = 16;

  bool Has(const std::string& feature) const;
  // Everything that decides the compiled bytes: the version of LLVM, all of the above, and the
  // flags of cpu_compiler.cc.
  std::string Toolchain() const;
};

// The machine that runs this process. `features` (as above; "" is the plain base) replaces the
// features of the processor.
CpuTarget MakeCpuTarget(const std::optional<std::string>& features);

// The same facts for the layers above. `threads`: how many threads run one kernel.
Target Describe(const CpuTarget& target, int threads);

// Data caches of one processor, nearest first, as Linux shows them. `folder`: its "cache" folder in
// sysfs. Empty if the system does not say, as in some containers.
std::vector<CacheLevel> ReadCaches(const std::string& folder);

// The data caches of the first processor that this process may run on.
std::vector<CacheLevel> ReadCaches();

}  // namespace uopd::devices::cpu
