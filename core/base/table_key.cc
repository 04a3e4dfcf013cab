// SPDX-License-Identifier: MIT
#include "core/base/table_key.h"

#include <sys/random.h>

#include <chrono>

#include "core/base/status.h"

namespace uopd {
namespace {

uint64_t Draw() {
  uint64_t key = 0;
  // Once the generator is seeded, getrandom returns all of up to 256 bytes.
  if (getrandom(&key, sizeof key, 0) == static_cast<ssize_t>(sizeof key)) return key;
  // A system without random numbers. The best alternative is a value that is hard to guess from
  // outside.
  return Fold(static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()),
              reinterpret_cast<uintptr_t>(&key) * 0x9E3779B97F4A7C15ull);
}

uint64_t& Key() {
  static uint64_t key = Draw();
  return key;
}

}  // namespace

uint64_t TableKey() { return Key(); }

ScopedTableKey::ScopedTableKey(uint64_t key) : before_(Key()) { Key() = key; }
ScopedTableKey::~ScopedTableKey() { Key() = before_; }

}  // namespace uopd
