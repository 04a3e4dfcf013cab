// SPDX-License-Identifier: MIT
// AMX in software, for kernels in LLVM IR on machines without it: tile registers of the calling
// thread and the instructions that uopd uses, as the Software Developer's Manual of the processor
// defines them. What the processor would refuse (a tile that is not configured, rows of operands
// that do not match) ends the program.
//
// The functions are symbols of the test program, so it must export them (ENABLE_EXPORTS).
#pragma once
#include <string>

namespace uopd::tests {

// The text with calls of the emulator instead of AMX intrinsics.
std::string EmulateAmx(std::string text);

}  // namespace uopd::tests
