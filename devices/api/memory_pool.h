// SPDX-License-Identifier: MIT
// Size-class cache over a driver's raw memory, with a hard limit. Device::Allocate of every driver
// uses such a pool.
//
// Why: fresh pages are expensive (a page fault per 4 KiB on the host, a synchronising call on a
// GPU), and graphs ask for the same sizes again and again. Sizes are rounded up to eight classes
// per power of two (at most 12.5 % waste). Freed blocks are kept up to `keep_bytes`; the oldest go
// first. Used and kept blocks together never exceed `limit_bytes`.
//
// Thread-safe. The pool calls the raw memory without holding its lock. REQUIRES: every block is
// freed before the pool is destroyed.
#pragma once
#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "devices/api/device.h"

namespace uopd::devices {

// Where a pool gets its memory from. Thread-safe.
class RawMemory {
 public:
  virtual ~RawMemory() = default;
  virtual void* Allocate(size_t bytes) = 0;  // null when no memory is left
  virtual void Free(void* data, size_t bytes) = 0;
  // Why so many bytes cannot be had now, as a part of a sentence; empty: unknown.
  virtual std::string Scarcity(size_t) const { return ""; }
  // Sets every byte of a block, and waits until that is done.
  virtual absl::Status Fill(void* data, size_t bytes, std::byte value) = 0;
};

class MemoryPool {
 public:
  struct Options {
    size_t limit_bytes = 0;
    size_t keep_bytes = 0;
    MemoryPattern pattern;
  };
  struct Block {
    void* data = nullptr;
    size_t bytes = 0;  // the rounded size, not the requested one
  };

  MemoryPool(std::unique_ptr<RawMemory> raw, Options options);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // RESOURCE_EXHAUSTED: the size is above the limit, or no memory is left. An error of
  // RawMemory::Fill.
  absl::StatusOr<Block> Allocate(size_t bytes) UOPD_EXCLUDES(mu_);
  void Free(Block block) UOPD_EXCLUDES(mu_);
  void Trim() UOPD_EXCLUDES(mu_);  // gives all kept blocks back to the raw memory
  MemoryStats stats() const UOPD_EXCLUDES(mu_);

  static size_t SizeClass(size_t bytes);

 private:
  using Kept = std::list<Block>;  // newest first

  absl::StatusOr<Block> Take(size_t bytes) UOPD_EXCLUDES(mu_);

  Block TakeKept(Kept::iterator it) UOPD_REQUIRES(mu_);
  // Moves the oldest kept blocks to `out` until at most `keep` bytes are kept.
  void Shrink(size_t keep, std::vector<Block>& out) UOPD_REQUIRES(mu_);
  void Release(const std::vector<Block>& blocks);
  void Count(const Block& block) UOPD_REQUIRES(mu_);

  const std::unique_ptr<RawMemory> raw_;
  const Options options_;
  mutable Mutex mu_;
  Kept kept_ UOPD_GUARDED_BY(mu_);
  absl::flat_hash_map<size_t, std::deque<Kept::iterator>> by_class_
      UOPD_GUARDED_BY(mu_);  // newest first
  MemoryStats stats_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::devices
