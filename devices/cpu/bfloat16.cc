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
    return InLowHalf(bits >> 16 | 0x40);  // NaN stays NaN, made quiet
  return InLowHalf((bits + 0x7fff + (bits >> 16 & 1)) >>
                   16);  // a carry out of the fraction is the next exponent
}

float DoubleToBfloat16(double value) {
  // Rounding to float first could make a tie out of what was none. Round to odd instead: where the
  // float is not exact, take the neighbour with the last bit set; 24 bits to odd, then 8 bits to
  // nearest, is correct rounding.
  float narrow = static_cast<float>(value);
  if (std::isnan(value)) return FloatToBfloat16(narrow);
  uint32_t bits = std::bit_cast<uint32_t>(narrow);
  if (static_cast<double>(narrow) != value) {
    // Towards zero when the conversion went away from it (also back from infinity), then odd.
    if (std::fabs(static_cast<double>(narrow)) > std::fabs(value)) --bits;
    bits |= 1;
  }
  return FloatToBfloat16(std::bit_cast<float>(bits));
}

}  // namespace uopd::devices::cpu
