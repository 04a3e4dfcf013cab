// SPDX-License-Identifier: MIT
// Quotients and remainders of integers that are not negative, in PTX.
//
// Indices are such integers: numbers of blocks, threads and iterations. NVIDIA's compiler of PTX
// takes them for any integers. It makes long code of a signed division, and takes about as long for
// one as for the rest of a small kernel. So a division by a constant is written as a shift, a mask,
// or a multiplication here.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "core/render/ptx/text.h"

namespace uopd::render {

// x / divisor is the upper 32 bits of x * factor, shifted to the right.
struct Reciprocal {
  uint32_t factor = 0;
  int shift = 0;
};

// For all x from 0 to `largest`. Nullopt: no factor of 32 bits is exact for all of them. REQUIRES:
// divisor >= 2.
std::optional<Reciprocal> ReciprocalOf(uint32_t divisor, uint32_t largest);

// A scalar CDIV or CMOD whose operands are never negative, as the name of a register. Nullopt: u is
// no such node.
std::optional<std::string> MaybePtxQuotient(PtxText& text, ir::UOp u);

}  // namespace uopd::render
