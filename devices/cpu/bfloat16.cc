// SPDX-License-Identifier: MIT
#include "devices/cpu/bfloat16.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace uopd::devices::cpu {
namespace {

float InLowHalf(uint32_t bits) { return std::bit_cast<float>(bits & 0xffff); }

}  // namespace

float FloatToBfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return InLowHalf(bits >> 16 | 0x40);  // a NaN stays a NaN and becomes quiet
  return InLowHalf((bits + 0x7fff + (bits >> 16 & 1)) >>
                   16);  // a carry out of the fraction gives the next exponent
}

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

}  // namespace uopd::devices::cpu
