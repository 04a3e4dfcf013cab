// SPDX-License-Identifier: MIT
#include "core/base/arena.h"

#include <algorithm>

namespace uopd {

void* Arena::AllocateBlock(size_t bytes) {
  // Blocks of 4 KiB to 1 MiB, each a quarter of what came before: a tiny request stays tiny, a huge
  // one does not call the allocator often, and at most a fifth of what is reserved is unused.
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
