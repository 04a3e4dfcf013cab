// SPDX-License-Identifier: MIT
#include "devices/cpu/cpu_symbols.h"

#include <bit>
#include <cmath>
#include <cstdint>

// Only the addresses, without types. The declarations use assembler names, since <cmath> overloads
// the functions and libgcc declares none of them.
#define UOPD_SYM(name) extern "C" void uopd_cpu_symbol_##name() __asm__(#name);
#include "devices/cpu/cpu_symbols.def"
#undef UOPD_SYM

namespace uopd::devices::cpu {

namespace {

// __truncsfbf2 and __truncdfbf2, which libgcc 12 lacks: conversion to bfloat16, round to nearest
// even. Pure functions.
//
// The x86-64 ABI returns a bfloat16 in the low 16 bits of xmm0. The low 16 bits of a float are in
// the same place. So these functions return a float whose low half is the result (gcc 12 has no
// type for bfloat16).
float InLowHalf(uint32_t bits) { return std::bit_cast<float>(bits & 0xffff); }

float FloatToBfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return InLowHalf(bits >> 16 | 0x40);  // a NaN stays a NaN and becomes quiet
  // A carry out of the fraction gives the next exponent.
  return InLowHalf((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Rounds once, not by way of float.
float DoubleToBfloat16(double value) {
  // Rounding to float first could create a tie that `value` does not have. So round to odd instead:
  // if the float is not exact, take the neighbour whose last bit is set. Rounding to 24 bits (to
  // odd) and then to 8 bits (to nearest) is correct rounding.
  float narrow = static_cast<float>(value);
  if (std::isnan(value)) return FloatToBfloat16(narrow);
  uint32_t bits = std::bit_cast<uint32_t>(narrow);
  if (static_cast<double>(narrow) != value) {
    // If the conversion went away from zero (this includes infinity), step back towards zero. Then
    // make the last bit odd.
    if (std::fabs(static_cast<double>(narrow)) > std::fabs(value)) --bits;
    bits |= 1;
  }
  return FloatToBfloat16(std::bit_cast<float>(bits));
}

}  // namespace

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
