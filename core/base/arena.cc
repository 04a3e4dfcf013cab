// SPDX-License-Identifier: MIT
#include "core/base/arena.h"

#include <algorithm>

namespace uopd {

void* Arena::AllocateBlock(size_t bytes) {
  // A block has a quarter of the bytes that are reserved already, at least 4 KiB and at most 1 MiB.
  // So a tiny request stays tiny, a huge one rarely calls the allocator, and at most a fifth of the
  // reserved memory is unused.
  const size_t regular = std::clamp<size_t>(reserved_ / 4, 4096, size_t{1} << 20);
  const size_t size = std::max(bytes, regular);
  blocks_.push_back(std::make_unique_for_overwrite<char[]>(size));
  reserved_ += size;
  char* block = blocks_.back().get();
  if (size == bytes && next_ != nullptr) return block;  // an oversized object gets its own block
  next_ = block + bytes;
  end_ = block + size;
  return block;
}

}  // namespace uopd
