// SPDX-License-Identifier: MIT
#include "tests/support/amx_emulator.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_replace.h"
#include "core/ir/dtype.h"

namespace uopd::tests {
namespace {

constexpr int kTiles = 8, kMostRows = 16, kMostBytes = 64;

struct Tile {
  int rows = 0, bytes = 0;  // bytes: of a row
  uint8_t data[kMostRows][kMostBytes] = {};
};
thread_local Tile tiles[kTiles];
thread_local bool configured = false;

void Check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "AMX: %s\n", what);
  std::abort();
}

Tile& At(int8_t i) {
  Check(configured && i >= 0 && i < kTiles && tiles[i].rows > 0, "a tile that is not configured");
  return tiles[i];
}

// Denormals count as zeros: as results, and as operands of bf16.
float Flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x; }
float Bf16(const uint8_t* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return Flushed(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
}

// Denormals are numbers.
float F16(const uint8_t* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return static_cast<float>(ir::DecodeFloat(ir::Dtype::F16, bits));
}

// The operands of sums += a b: rows of 32-bit groups.
void CheckShapes(const Tile& sums, const Tile& a, const Tile& b) {
  Check(&sums != &a && &sums != &b && &a != &b, "one tile twice");
  Check(sums.rows == a.rows && a.bytes / 4 == b.rows && sums.bytes == b.bytes,
        "tiles do not match");
}

template <class A, class B>
void MultiplyBytes(Tile& sums, const Tile& a, const Tile& b) {
  CheckShapes(sums, a, b);
  for (int m = 0; m < sums.rows; ++m) {
    for (int n = 0; n < sums.bytes / 4; ++n) {
      uint32_t sum;
      std::memcpy(&sum, &sums.data[m][4 * n], 4);
      for (int k = 0; k < a.bytes; ++k) {
        const auto x = static_cast<A>(a.data[m][k]);
        const auto y = static_cast<B>(b.data[k / 4][4 * n + k % 4]);
        sum += static_cast<uint32_t>(static_cast<int32_t>(x) * static_cast<int32_t>(y));
      }
      std::memcpy(&sums.data[m][4 * n], &sum, 4);
    }
  }
}

// Elements 0 and 1 of the pairs are added up apart, fused; then both sums are added to the old one.
template <class Decode>
void MultiplyPairs(Tile& sums, const Tile& a, const Tile& b, Decode decode) {
  CheckShapes(sums, a, b);
  for (int m = 0; m < sums.rows; ++m) {
    for (int n = 0; n < sums.bytes / 4; ++n) {
      float part[2] = {0, 0};
      for (int k = 0; k < a.bytes / 4; ++k) {
        for (int of = 0; of < 2; ++of) {
          part[of] = Flushed(std::fma(decode(&a.data[m][4 * k + 2 * of]),
                                      decode(&b.data[k][4 * n + 2 * of]), part[of]));
        }
      }
      float sum;
      std::memcpy(&sum, &sums.data[m][4 * n], 4);
      sum = Flushed(Flushed(sum) + Flushed(part[0] + part[1]));
      std::memcpy(&sums.data[m][4 * n], &sum, 4);
    }
  }
}

}  // namespace

extern "C" {
#define UOPD_EXPORT __attribute__((visibility("default"), used)) void

UOPD_EXPORT uopd_amx_ldtilecfg(const uint8_t* configuration) {
  Check(configuration[0] == 1 && configuration[1] == 0, "an unknown palette");
  for (int i = 0; i < kTiles; ++i) {
    uint16_t bytes;
    std::memcpy(&bytes, configuration + 16 + 2 * i, sizeof bytes);
    tiles[i] = Tile();
    tiles[i].rows = configuration[48 + i], tiles[i].bytes = bytes;
    Check(tiles[i].rows <= kMostRows && bytes <= kMostBytes, "a tile that is too large");
  }
  for (int i = 0; i < 8; ++i)
    Check(configuration[56 + i] == 0 && configuration[32 + 2 * i] == 0, "more than 8 tiles");
  configured = true;
}
UOPD_EXPORT uopd_amx_tilerelease() { configured = false; }
UOPD_EXPORT uopd_amx_tilezero(int8_t tile) {
  Tile& t = At(tile);
  std::memset(t.data, 0, sizeof t.data);
}
UOPD_EXPORT uopd_amx_tileloadd64(int8_t tile, const uint8_t* from, int64_t stride) {
  Tile& t = At(tile);
  for (int i = 0; i < t.rows; ++i)
    std::memcpy(t.data[i], from + i * stride, static_cast<size_t>(t.bytes));
}
UOPD_EXPORT uopd_amx_tilestored64(int8_t tile, uint8_t* to, int64_t stride) {
  const Tile& t = At(tile);
  for (int i = 0; i < t.rows; ++i)
    std::memcpy(to + i * stride, t.data[i], static_cast<size_t>(t.bytes));
}
UOPD_EXPORT uopd_amx_tdpbf16ps(int8_t to, int8_t first, int8_t second) {
  MultiplyPairs(At(to), At(first), At(second), Bf16);
}
UOPD_EXPORT uopd_amx_tdpfp16ps(int8_t to, int8_t first, int8_t second) {
  MultiplyPairs(At(to), At(first), At(second), F16);
}
UOPD_EXPORT uopd_amx_tdpbusd(int8_t to, int8_t first, int8_t second) {
  MultiplyBytes<uint8_t, int8_t>(At(to), At(first), At(second));
}
UOPD_EXPORT uopd_amx_tdpbsud(int8_t to, int8_t first, int8_t second) {
  MultiplyBytes<int8_t, uint8_t>(At(to), At(first), At(second));
}
UOPD_EXPORT uopd_amx_tdpbssd(int8_t to, int8_t first, int8_t second) {
  MultiplyBytes<int8_t, int8_t>(At(to), At(first), At(second));
}
UOPD_EXPORT uopd_amx_tdpbuud(int8_t to, int8_t first, int8_t second) {
  MultiplyBytes<uint8_t, uint8_t>(At(to), At(first), At(second));
}

#undef UOPD_EXPORT
}  // extern "C"

std::string EmulateAmx(std::string text) {
  absl::StrReplaceAll({{"@llvm.x86.t", "@uopd_amx_t"}, {"@llvm.x86.ldtile", "@uopd_amx_ldtile"}},
                      &text);
  return text;
}

}  // namespace uopd::tests
