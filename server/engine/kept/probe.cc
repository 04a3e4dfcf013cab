// SPDX-License-Identifier: MIT
#include "server/engine/kept/probe.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace uopd::engine {
namespace {

// The binary exponents of a probe, for a dtype whose smallest normal is 2^least.
struct Exponents {
  int low = 0, high = 0;
};

int LeastExponent(ir::Dtype dtype) {
  switch (dtype) {
    case ir::Dtype::F64:
      return -1022;
    case ir::Dtype::F16:
    case ir::Dtype::F8E5M2:
      return -14;
    case ir::Dtype::F8E4M3:
      return -6;
    default:  // F32, BF16, TF32
      return -126;
  }
}

Exponents ExponentsOf(ir::Dtype dtype, ProbeKind kind) {
  const int least = LeastExponent(dtype);
  switch (kind) {
    case ProbeKind::kWide:
      return {std::max(-20, least), std::min(20, -least - 2)};
    case ProbeKind::kTiny:
      return {least - 4, least + 1};
    case ProbeKind::kOrdinary:
    case ProbeKind::kMixed:
      break;
  }
  return {-3, 0};
}

}  // namespace

std::string ProbeData(ir::Dtype dtype, int64_t bytes, ProbeKind kind, uint64_t seed) {
  const auto size = static_cast<size_t>(ir::ByteSize(dtype));
  std::string out(static_cast<size_t>(bytes), '\0');
  std::mt19937_64 random(seed * (std::size(kProbes) + 1) + static_cast<uint64_t>(kind));
  const size_t third = out.size() / size / std::size(kProbes) + 1;  // elements
  for (size_t at = 0; at + size <= out.size(); at += size) {
    const uint64_t r = random();
    uint64_t bits = 0;
    if (ir::IsFloat(dtype)) {
      const Exponents exponents =
          ExponentsOf(dtype, kind == ProbeKind::kMixed ? kProbes[at / size / third] : kind);
      const int span = exponents.high - exponents.low + 1;
      const auto steps = static_cast<uint64_t>(span);
      const double mantissa = 1 + static_cast<double>(r >> 12) * 0x1p-52;
      const int exponent = exponents.low + static_cast<int>((r & 0x7ff) % steps);
      const double magnitude = std::ldexp(mantissa, exponent);
      bits = ir::EncodeFloat(dtype, (r & 0x800) != 0 ? -magnitude : magnitude);
    } else if (dtype == ir::Dtype::Bool) {
      bits = r & 1;
    } else {
      const auto small = static_cast<int64_t>(r % 120);
      bits = static_cast<uint64_t>(ir::IsSigned(dtype) && (r >> 32) % 4 == 0 ? -small : small);
    }
    std::memcpy(out.data() + at, &bits, size);
  }
  return out;
}

bool SameElements(ir::Dtype dtype, std::string_view a, std::string_view b) {
  if (a == b) return true;
  if (a.size() != b.size() || !ir::IsFloat(dtype)) return false;
  const auto size = static_cast<size_t>(ir::ByteSize(dtype));
  for (size_t at = 0; at + size <= a.size(); at += size) {
    uint64_t x = 0, y = 0;
    std::memcpy(&x, a.data() + at, size);
    std::memcpy(&y, b.data() + at, size);
    if (x == y) continue;
    if (!std::isnan(ir::DecodeFloat(dtype, x)) || !std::isnan(ir::DecodeFloat(dtype, y)))
      return false;
  }
  return true;
}

}  // namespace uopd::engine
