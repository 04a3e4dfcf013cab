// SPDX-License-Identifier: MIT
#include "server/worker/job/fill_pattern.h"

#include <array>
#include <cstring>

#include "core/base/digest.h"
#include "core/base/status.h"

namespace uopd::worker {
namespace {

constexpr size_t kValues = 256;  // few distinct values, because encoding small floats is slow

uint64_t Next(uint64_t& state) {  // splitmix64
  uint64_t z = (state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// The stored bits of the i-th value.
uint64_t Value(ir::Dtype dtype, size_t i) {
  if (ir::IsFloat(dtype)) {
    const size_t pair = i / 2;
    const double magnitude = (2.0 * static_cast<double>(pair) + 1.0) / kValues;  // (0, 1)
    return ir::EncodeFloat(dtype, i % 2 == 0 ? magnitude : -magnitude);
  }
  if (dtype == ir::Dtype::Bool) return i % 2;
  return i % 16 + 1;
}

}  // namespace

void FillPattern(ir::Dtype dtype, uint64_t seed, std::span<std::byte> out) {
  const auto width = static_cast<size_t>(ir::ByteSize(dtype));
  UOPD_CHECK(width > 0 && width <= sizeof(uint64_t));
  std::array<uint64_t, kValues> values;
  for (size_t i = 0; i < kValues; ++i) values[i] = Value(dtype, i);
  uint64_t state = Mix(seed, static_cast<uint64_t>(dtype)), random = 0;
  size_t at = 0;
  for (int left = 0; at + width <= out.size(); at += width, random >>= 8, --left) {
    if (left == 0) {
      random = Next(state);
      left = 8;
    }
    std::memcpy(out.data() + at, &values[random % kValues],
                width);  // little-endian, as devices are
  }
  if (at < out.size()) std::memset(out.data() + at, 0, out.size() - at);
}

}  // namespace uopd::worker
