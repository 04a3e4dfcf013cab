// SPDX-License-Identifier: MIT
// Memory of peers: on the same pages as buffers of a CPU device, which are huge where Linux gives
// them. On small pages a loop that reads or writes memory may take 1.5 times as long.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

namespace uopd::perf {

template <class T>
struct HugePages {
  using value_type = T;
  HugePages() = default;
  template <class U>
  HugePages(const HugePages<U>&) {}  // NOLINT: as the requirements of allocators have it

  static constexpr size_t kPage = size_t{2} << 20;
  T* allocate(size_t n) {
    const size_t bytes = (n * sizeof(T) + kPage - 1) / kPage * kPage;
    void* out = std::aligned_alloc(kPage, bytes);
    if (out == nullptr) std::abort();
    madvise(out, bytes, MADV_HUGEPAGE);  // without huge pages it fails, which does no harm
    return static_cast<T*>(out);
  }
  void deallocate(T* data, size_t) { std::free(data); }
  bool operator==(const HugePages&) const = default;
};

template <class T>
using Array = std::vector<T, HugePages<T>>;

using Part = float __attribute__((vector_size(16)));
constexpr int kParts = 4;
// A cache line.
struct alignas(64) Line {
  Part parts[kParts];
};
constexpr int64_t kLineFloats = sizeof(Line) / sizeof(float);

}  // namespace uopd::perf
