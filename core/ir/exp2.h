// SPDX-License-Identifier: MIT
// The polynomials that compute 2^f and e^f in f32, for kernels and for instructions that renderers
// write.
#pragma once
#include <cstdint>

namespace uopd::ir {

// 2^f for f in [-1/2, 1/2], c[0] first. The largest relative error is as small as it can be for
// coefficients of f32 of which the first one is 1, so that 2^0 is exact: 3e-9 before rounding. With
// multiply-adds that round once, Horner's scheme is within 0.8 ulp.
inline constexpr double kExp2Polynomial[] = {
    1, 0x1.62e430p-1, 0x1.ebfbdcp-3, 0x1.c6af7cp-5, 0x1.3b2de0p-7, 0x1.5f082ep-10, 0x1.416b50p-13};

// e^f for |f| <= ln(2) / 2, likewise, with 1 as the second coefficient too: 4e-9 before rounding.
inline constexpr double kExpPolynomial[] = {
    1, 1, 0x1.fffffcp-2, 0x1.555492p-3, 0x1.5558f2p-5, 0x1.1239e2p-7, 0x1.6a2466p-10};
// f is x - n ln(2) for the integer n nearest to x / ln(2). The high part of ln(2) has so few bits
// that its product with n is exact (W. J. Cody and W. Waite, Software manual for the elementary
// functions, 1980).
inline constexpr double kLn2High = 0x1.62e4p-1, kLn2Low = 0x1.7f7d1cp-20;

// The tag of an EXP2 of a linear kernel that is the polynomial of x - n, scaled by 2^n, n the
// integer nearest to x; of an EXP, that of x - n ln(2), n nearest to x / ln(2). One instruction
// scales, also by n outside of the range of exponents.
inline constexpr int64_t kByScaling = 1;
// The tag of an EXP2 that may take operands and results below 2^-126 as 0.
inline constexpr int64_t kFlushes = 2;

}  // namespace uopd::ir
