// SPDX-License-Identifier: MIT
// Which parts of LLVM take the time of compiling a program.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace uopd::perf {

// Compiles every distinct kernel of a tensor graph once, in this process and on one thread, and
// returns milliseconds of processor time:
//   "total"      all of it
//   "passes"     parsing, verifying and optimising IR: what is not in the two below
//   "selection"  selecting instructions, from IR to machine instructions
//   "registers"  allocating registers, with the analyses that it needs
//   "emission"   the other passes over machine instructions, and the object
// LLVM's own timers, which are on meanwhile, make all of it a little slower.
absl::StatusOr<std::map<std::string, double>> LlvmParts(std::string_view graph);

}  // namespace uopd::perf
