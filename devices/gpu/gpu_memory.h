// SPDX-License-Identifier: MIT
// Memory of a GPU: pools of memory on the chip, of host memory that the chip addresses, and
// of pinned memory through which pageable memory is copied.
//
// The host memory is mapped by this process and registered with the driver. So it stays readable
// when the device is lost and its context is reset, and the chip may still write to it.
//
// The device owns the heap; a buffer keeps its device open, and so the heap too. Thread-safe.
// RESOURCE_EXHAUSTED: above the limit, or no memory left. UNAVAILABLE: the device is lost.
#pragma once
#include <atomic>
#include <cstddef>
#include <memory>

#include "devices/api/memory_pool.h"
#include "devices/gpu/gpu_context.h"

namespace uopd::devices::gpu {

class GpuBuffer : public Buffer {
 public:
  GpuBuffer(std::shared_ptr<Device> device, size_t size, MemoryKind kind, MemoryPool& pool,
            MemoryPool::Block block, std::byte* host_data, GpuPointer address)
      : Buffer(std::move(device), size, kind, host_data),
        pool_(pool),
        block_(block),
        address_(address) {}
  ~GpuBuffer() override { pool_.Free(block_); }

  GpuPointer address() const { return address_; }  // as kernels use it

  // Work that was given up while the chip still had it may write the memory at any time. No later
  // work may use it: the owner drops it, and it is free once the chip is done. Thread-safe.
  void GiveUp() { given_up_.store(true, std::memory_order_relaxed); }
  absl::Status CheckUsable() const;

 private:
  MemoryPool& pool_;  // owned by the device, which Buffer keeps open
  const MemoryPool::Block block_;
  const GpuPointer address_;
  std::atomic<bool> given_up_ = false;
};

// Host memory of whole pages that the chip can address. Thread-safe.
class PinnedMemory final : public RawMemory {
 public:
  explicit PinnedMemory(std::shared_ptr<GpuContext> context) : context_(std::move(context)) {}
  void* Allocate(size_t bytes) override;
  void Free(void* data, size_t bytes) override;
  absl::Status Fill(void* data, size_t bytes, std::byte value) override;
  // The address of pinned memory as kernels use it. REQUIRES: context->Enter().
  static absl::StatusOr<GpuPointer> AddressOf(GpuContext& context, void* data);

 private:
  const std::shared_ptr<GpuContext> context_;
};

class GpuHeap {
 public:
  struct Options {
    size_t limit_bytes = 0;
    size_t keep_bytes = 0;
    size_t staging_bytes = size_t{256} << 20;  // pinned memory for copies under way
    MemoryPattern pattern;
  };

  GpuHeap(std::shared_ptr<GpuContext> context, const Options& options);
  GpuHeap(const GpuHeap&) = delete;
  GpuHeap& operator=(const GpuHeap&) = delete;

  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(std::shared_ptr<Device> device, size_t bytes,
                                                   MemoryKind kind);
  // Of both kinds of memory; the limit is that of the chip.
  MemoryStats stats() const;
  // Pinned memory for copies. A copy that gets none goes through the driver's own.
  MemoryPool& staging() { return staging_; }

 private:
  const std::shared_ptr<GpuContext> context_;
  MemoryPool device_;
  MemoryPool host_;
  MemoryPool staging_;
};

}  // namespace uopd::devices::gpu
