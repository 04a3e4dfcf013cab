// SPDX-License-Identifier: MIT
// 256-bit digests: how graphs, kernels and cache entries are named across processes and machines.
//
// SHA-256 (FIPS 180-4), so that no client can make a graph that has the digest of another client's
// graph. core links no cryptographic library, hence the implementation here; tests compare it with
// published vectors.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace uopd {

struct Digest {
  std::array<uint8_t, 32> bytes{};

  auto operator<=>(const Digest&) const = default;
  std::string Hex() const;
  std::string_view view() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // False when `raw` is not exactly 32 bytes; then *this is unchanged.
  bool FromBytes(std::string_view raw);

  template <class H>
  friend H AbslHashValue(H h, const Digest& d) {
    uint64_t word;  // any 8 bytes of a SHA-256 digest are a good hash
    std::memcpy(&word, d.bytes.data(), sizeof word);
    return H::combine(std::move(h), word);
  }
};

// Incremental SHA-256. Not thread-safe.
class Hasher {
 public:
  Hasher();
  void Update(std::string_view data);
  Digest Finish();  // leaves the hasher unusable

 private:
  void Blocks(const uint8_t* p, size_t blocks);
  void Block(const uint8_t* p);  // in C++ alone, for CPUs without instructions for it
  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> tail_;
  size_t tail_size_ = 0;
  uint64_t total_ = 0;
};

Digest HashBytes(std::string_view data);

// Fast 64-bit mixing for in-process tables; never stored, never sent.
constexpr uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ (b + 0x9E3779B97F4A7C15ull + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdull;
  return x ^ (x >> 32);
}

}  // namespace uopd
