// SPDX-License-Identifier: MIT
// Splits masked loads and stores that are wider than a register, for processors with AVX and
// without AVX-512.
//
// LLVM 19 splits them itself, and loses the mask of a part whose lanes are all known to be false:
// such a part is loaded as if its lanes were true, so a kernel read beside its buffers. An example
// is the mask (constant lanes AND condition of the row), where no constant lane of the upper half
// is true. With AVX-512 masks have registers of their own, which are split rightly.
//
// Here each part gets a mask that LLVM knows nothing about: it passes an empty piece of assembly.
// The parts have the width of a register, and nothing is left for LLVM to split. Runs after the
// passes on the IR, right before instructions are selected.
#pragma once

namespace llvm {
class Module;
}

namespace uopd::devices::cpu {

struct CpuTarget;

void SplitWideMasks(llvm::Module& module, const CpuTarget& target);

}  // namespace uopd::devices::cpu
