// SPDX-License-Identifier: MIT
// Bump allocator: memory that is freed all at once.
//
// Objects must be trivially destructible. Not thread-safe: an arena belongs to one thread at a
// time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace uopd {

class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Uninitialised storage, aligned to 8 bytes.
  void* Allocate(size_t bytes) {
    bytes = (bytes + 7) & ~size_t{7};
    if (bytes > static_cast<size_t>(end_ - next_)) return AllocateBlock(bytes);
    void* out = next_;
    next_ += bytes;
    return out;
  }
  template <class T>
  T* AllocateArray(size_t n) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= 8);
    return static_cast<T*>(Allocate(n * sizeof(T)));
  }

  size_t bytes_reserved() const { return reserved_; }

 private:
  void* AllocateBlock(size_t bytes);

  std::vector<std::unique_ptr<char[]>> blocks_;
  char* next_ = nullptr;
  char* end_ = nullptr;
  size_t reserved_ = 0;
};

}  // namespace uopd
