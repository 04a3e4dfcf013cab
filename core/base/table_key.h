// SPDX-License-Identifier: MIT
// Hashing for tables in memory whose contents outsiders choose.
//
// The key is drawn at random once a process, so that nobody can choose values that meet in one
// place of a table. It must change no output: what depends on a hash (an order, a name, a key of
// the cache) uses Mix of digest.h, and nothing iterates over a table.
// tests/unit/client/cpp/table_key_test.cc compares whole pipelines under a hundred keys.
#pragma once
#include <cstdint>

namespace uopd {

uint64_t TableKey();

// Spreads every bit of both over the result. One of them, or what it was made of, must be secret.
constexpr uint64_t Fold(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// A hash under a key, fed value by value.
class KeyedHash {
 public:
  // `first` is multiplied: with the bits as they are, a pair of ids or addresses that are counted
  // up together would meet all other such pairs when the second value is added.
  explicit constexpr KeyedHash(uint64_t key, uint64_t first) : hash_(key + first * kOdd) {}
  constexpr void Add(uint64_t v) { hash_ = Fold(hash_ ^ v, kOdd); }
  // The first value of which an outsider chooses all the bits: a product of two secrets.
  constexpr void AddChosen(uint64_t key, uint64_t v) {
    hash_ = Fold(hash_, v ^ (key << 32 | key >> 32) ^ kOdd);
  }
  constexpr uint64_t get() const { return hash_; }

 private:
  static constexpr uint64_t kOdd = 0x9E3779B97F4A7C15ull;
  uint64_t hash_;
};

// For tests: tables made while it lives use this key. Not thread-safe.
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
