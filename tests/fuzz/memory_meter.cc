// SPDX-License-Identifier: MIT
#include "tests/fuzz/memory_meter.h"

#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

thread_local int64_t held = 0, most = 0;

}  // namespace

#ifndef UOPD_SANITIZED
namespace {

void* Count(void* p) {
  if (p == nullptr) std::abort();
  held += static_cast<int64_t>(malloc_usable_size(p));
  most = std::max(most, held);
  return p;
}
void Release(void* p) {
  if (p == nullptr) return;
  held -= static_cast<int64_t>(malloc_usable_size(p));
  std::free(p);
}

}  // namespace

void* operator new(size_t size) { return Count(std::malloc(size)); }
void* operator new[](size_t size) { return Count(std::malloc(size)); }
void* operator new(size_t size, std::align_val_t align) {
  const auto a = static_cast<size_t>(align);
  return Count(std::aligned_alloc(a, (size + a - 1) / a * a));
}
void operator delete(void* p) noexcept { Release(p); }
void operator delete[](void* p) noexcept { Release(p); }
void operator delete(void* p, size_t) noexcept { Release(p); }
void operator delete[](void* p, size_t) noexcept { Release(p); }
void operator delete(void* p, std::align_val_t) noexcept { Release(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { Release(p); }
#endif

namespace uopd::test {

MemoryMeter::MemoryMeter() : before_(static_cast<double>(held)) { most = held; }
double MemoryMeter::peak() const { return static_cast<double>(most) - before_; }

}  // namespace uopd::test
