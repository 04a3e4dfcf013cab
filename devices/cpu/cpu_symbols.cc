// SPDX-License-Identifier: MIT
#include "devices/cpu/cpu_symbols.h"

#include "devices/cpu/bfloat16.h"

// Only the addresses, without types. The declarations use assembler names, since <cmath> overloads
// the functions and libgcc declares none of them.
#define UOPD_SYM(name) extern "C" void uopd_cpu_symbol_##name() __asm__(#name);
#include "devices/cpu/cpu_symbols.def"
#undef UOPD_SYM

namespace uopd::devices::cpu {

std::span<const CpuSymbol> CpuSymbols() {
  static const CpuSymbol kSymbols[] = {
#define UOPD_SYM(name) {#name, reinterpret_cast<void*>(&uopd_cpu_symbol_##name)},
#include "devices/cpu/cpu_symbols.def"
#undef UOPD_SYM
      // libgcc 12 has no conversions to bfloat16.
      {"__truncsfbf2", reinterpret_cast<void*>(&FloatToBfloat16)},
      {"__truncdfbf2", reinterpret_cast<void*>(&DoubleToBfloat16)},
  };
  return kSymbols;
}

}  // namespace uopd::devices::cpu
