// SPDX-License-Identifier: MIT
// The functions that compiled kernels may call, by name. A constant table.
#pragma once
#include <span>

namespace uopd::devices::cpu {

struct CpuSymbol {
  const char* name;
  void* address;
};

std::span<const CpuSymbol> CpuSymbols();

}  // namespace uopd::devices::cpu
