// SPDX-License-Identifier: MIT
// Hashing for in-memory tables whose contents clients choose.
//
// The key is random and drawn once per process, so that nobody can choose values that collide in a
// table. The key must not change any output. So whatever depends on a hash (an order, a name, a key
// of the cache) uses Mix of digest.h, and no code iterates over such a table.
// tests/integration/client/cpp/table_key_test.cc compares whole compiles under a hundred keys.
#pragma once
#include <cstdint>

namespace uopd {

uint64_t TableKey();

// Spreads every bit of both values over the result. At least one of them must be secret or made
// from a secret.
constexpr uint64_t Fold(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// A hash of several values under a secret key.
class KeyedHash {
 public:
  // `first` is multiplied by an odd constant. Without that, pairs of ids or addresses that are
  // counted up together would all collide when the second value is added.
  explicit constexpr KeyedHash(uint64_t key, uint64_t first) : hash_(key + first * kOdd) {}
  constexpr void Add(uint64_t v) { hash_ = Fold(hash_ ^ v, kOdd); }
  // Adds the first value of which a client chooses all bits. Both factors of the product are secret
  // here.
  constexpr void AddChosen(uint64_t key, uint64_t v) {
    hash_ = Fold(hash_, v ^ (key << 32 | key >> 32) ^ kOdd);
  }
  constexpr uint64_t get() const { return hash_; }

 private:
  static constexpr uint64_t kOdd = 0x9E3779B97F4A7C15ull;
  uint64_t hash_;
};

// For tests: tables that are made during its lifetime use this key. Not thread-safe.
class ScopedTableKey {
 public:
  explicit ScopedTableKey(uint64_t key);
  ~ScopedTableKey();
  ScopedTableKey(const ScopedTableKey&) = delete;
  ScopedTableKey& operator=(const ScopedTableKey&) = delete;

 private:
  const uint64_t before_;
};

}  // namespace uopd
