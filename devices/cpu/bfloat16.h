// SPDX-License-Identifier: MIT
// __truncsfbf2 and __truncdfbf2, which libgcc 12 lacks: conversion to bfloat16, round to nearest
// even. Pure functions.
//
// The x86-64 ABI returns a bfloat16 in the low 16 bits of xmm0. The low 16 bits of a float are in
// the same place. So these functions return a float whose low half is the result (gcc 12 has no
// type for bfloat16).
#pragma once

namespace uopd::devices::cpu {

float FloatToBfloat16(float value);
float DoubleToBfloat16(double value);  // rounds once, not by way of float

}  // namespace uopd::devices::cpu
