// SPDX-License-Identifier: MIT
// __truncsfbf2 and __truncdfbf2, which libgcc 12 lacks: to bfloat16, round to nearest even. Pure
// functions.
//
// The x86-64 ABI returns bfloat16 in the low 16 bits of xmm0, where a float's low 16 bits are too,
// so these return a float whose low half holds the answer (gcc 12 has no type for it).
#pragma once

namespace uopd::devices::cpu {

float FloatToBfloat16(float value);
float DoubleToBfloat16(double value);  // rounds once, not through float

}  // namespace uopd::devices::cpu
