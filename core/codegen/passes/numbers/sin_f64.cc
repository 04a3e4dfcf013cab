// SPDX-License-Identifier: MIT
// SIN and COS of f64. Multiples of pi/2 are taken off exactly for every x: the bits of 2/pi that
// matter are chosen by the exponent of x and multiplied as integers (M. Payne and R. Hanek, Radian
// reduction for trigonometric functions, 1983).
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/codegen/passes/numbers/transcendental.h"

namespace uopd::codegen {
namespace {

using ir::Dtype;
using ir::Op;

// 2 words of zeros, for small exponents, and 2/pi: its first bit has the weight 1/2.
constexpr uint64_t kTwoOverPi[] = {
    0,
    0,
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
    0xf0cfbc209af4361d,
};
constexpr size_t kWords = std::size(kTwoOverPi);
constexpr int kWindow = 3;  // words of 2/pi that are multiplied

// The kWindow words that begin at bit `at`.
std::vector<Ex> Window(Ex at) {
  std::vector<Ex> words;
  for (uint64_t w : kTwoOverPi) words.push_back(at.Bits(w));
  // First to the word of bit `at`, by the bits of the word's number, then to the bit.
  for (size_t step = 16; step > 0; step /= 2) {
    const Ex far = (at & at.Bits(step * 64)).Ne(at.Bits(0));
    const size_t needed = std::min(kWords, kWindow + 1 + step - 1);
    std::vector<Ex> moved;
    for (size_t i = 0; i < needed; ++i) {
      const Ex there = i + step < words.size() ? words[i + step] : at.Bits(0);
      moved.push_back(far.Select(there, words[i]));
    }
    words = std::move(moved);
  }
  const Ex bit = at & at.Bits(63), rest = at.Bits(63) - bit;
  std::vector<Ex> out;
  for (size_t i = 0; i < kWindow; ++i)
    out.push_back(words[i].Alu(Op::SHL, bit) | (words[i + 1] >> 1).Alu(Op::SHR, rest));
  return out;
}

// The low kWindow words of m times a number of kWindow words, most significant word first. m <
// 2^53.
std::vector<Ex> LowProduct(Ex m, const std::vector<Ex>& words) {
  const Ex mask = m.Bits(0xffffffff);
  const Ex factor[] = {m & mask, m >> 32};
  std::vector<Ex> limbs, digits;  // 32 bits each, least significant first
  for (size_t i = words.size(); i-- > 0;) {
    limbs.push_back(words[i] & mask);
    limbs.push_back(words[i] >> 32);
  }
  Ex carry = m.Bits(0);
  std::vector<Ex> high(limbs.size() + 1,
                       m.Bits(0));  // upper halves of products, by the digit that gets them
  for (size_t k = 0; k < limbs.size(); ++k) {
    Ex sum = carry + high[k];
    for (size_t j = 0; j < 2 && j <= k; ++j) {
      const Ex product = factor[j] * limbs[k - j];
      sum = sum + (product & mask);
      high[k + 1] = high[k + 1] + (product >> 32);
    }
    digits.push_back(sum & mask);
    carry = sum >> 32;
  }
  std::vector<Ex> out;
  for (size_t k = digits.size(); k > 0; k -= 2)
    out.push_back((digits[k - 1] << 32) | digits[k - 2]);
  return out;
}

// The sine, or the cosine.
Ex SinOrCos(Ex x, bool is_cos) {
  const Ex sign_and_bits = x.Bitcast(Dtype::U64), bits = Abs(x).Bitcast(Dtype::U64);
  // |x| = m * 2^(field - 1075). Bit i of 2/pi, counted from 1, times m is a multiple of 4 if i <
  // field - 1076.
  const Ex field = bits >> 52;
  const Ex m = (bits & bits.Bits((uint64_t{1} << 52) - 1)) | bits.Bits(uint64_t{1} << 52);
  const Ex offset = field + bits.Bits(128), first = bits.Bits(1077);
  const Ex at = (offset < first).Select(bits.Bits(0), offset - first);
  const std::vector<Ex> p = LowProduct(m, Window(at));
  // p is |x| * 2/pi modulo 4: two bits of the quadrant, then the fraction, as one in [-1/2, 1/2).
  const Ex fraction = (p[0] << 2) | (p[1] >> 62), more = (p[1] << 2) | (p[2] >> 62);
  const Ex down = (fraction >> 63).Ne(bits.Bits(0));
  const Ex quadrant = (p[0] >> 62) + (fraction >> 63);
  const Ex ones = bits.Bits(~uint64_t{0});
  const Ex f0 = down.Select(fraction ^ ones, fraction), f1 = down.Select(more ^ ones, more);
  const auto number = [](Ex u) { return u.Bitcast(Dtype::I64).Cast(Dtype::F64); };
  const Ex a = number(f0 >> 11) * 0x1p-53;
  const Ex b = (number(f0 & f0.Bits(0x7ff)) + number(f1 >> 11) * 0x1p-53) * 0x1p-64;
  const Ex high = a + b, low = (a - high) + b;
  // The angle r + rest = fraction * pi/2, in 26 bits times 26 bits where it has to be exact.
  constexpr double kHalfPi = 0x1.921fb54442d18p0, kHalfPiRest = 0x1.1a62633145c07p-54;
  constexpr double kHalfPiHigh = 0x1.921fb58p0, kHalfPiLow = kHalfPi - kHalfPiHigh;
  const Ex c = high * 0x1.0000002p27, high1 = c - (c - high), high2 = high - high1;
  const Ex r = high * kHalfPi;
  const Ex error =
      (((high1 * kHalfPiHigh - r) + high1 * kHalfPiLow) + high2 * kHalfPiHigh) + high2 * kHalfPiLow;
  const Ex rest = error + (high * kHalfPiRest + low * kHalfPi);
  const Ex r2 = r * r;
  const Ex odd_terms = Horner(r2, {-1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800,
                                   1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000});
  const Ex even_terms = Horner(r2, {1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800,
                                    1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000});
  const Ex half_r2 = r2 * 0.5, one_less = half_r2.Const(1) - half_r2;
  const Ex sin = r + (rest * one_less + r * r2 * odd_terms);
  const Ex cos =
      one_less + (((one_less.Const(1) - one_less) - half_r2) + (r2 * r2 * even_terms - r * rest));
  const Ex one = bits.Bits(1), zero = bits.Bits(0);
  const Ex odd = (quadrant & one).Ne(zero);
  // The sine changes its sign with the fraction, both change it in the quadrants 2 and 3.
  const Ex signed_sin = down.Select(-sin, sin);
  const Ex value = is_cos ? odd.Select(signed_sin, cos) : odd.Select(cos, signed_sin);
  // The cosine is negative in the quadrants 1 and 2, and has no sign of x.
  const Ex half = is_cos ? (quadrant + one) >> 1 : (quadrant >> 1) ^ (sign_and_bits >> 63);
  const Ex out = (half & one).Ne(zero).Select(-value, value);
  const Ex small = bits < bits.Bits(0x3e40000000000000);  // 2^-27
  const Ex infinite = field.Eq(field.Bits(2047));
  return small.Select(is_cos ? x.Const(1) : x, infinite.Select(x - x, out));
}

}  // namespace

Ex SinF64(Ex x) { return SinOrCos(x, false); }
Ex CosF64(Ex x) { return SinOrCos(x, true); }

}  // namespace uopd::codegen
