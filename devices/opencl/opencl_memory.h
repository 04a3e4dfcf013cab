// SPDX-License-Identifier: MIT
// Buffers of an OpenCL device, in shared virtual memory (SVM): a pointer to any byte of a buffer is
// an argument of a kernel.
//
// The device owns this object; a buffer keeps the device open, and so this object too. Thread-safe.
// Where host and device share memory, every buffer has host_data(). On other devices no buffer has,
// and MemoryKind::kHostVisible is UNIMPLEMENTED. More than the limit, or more than the driver has,
// is RESOURCE_EXHAUSTED.
#pragma once
#include <memory>

#include "devices/api/memory_pool.h"
#include "devices/opencl/opencl_context.h"

namespace uopd::devices::opencl {

struct OpenClMemoryOptions {
  // At most seven eighths of the device's memory are used. 0: so much.
  size_t limit_bytes = 0;
  size_t keep_bytes = size_t{1} << 30;  // freed bytes to keep; at most a quarter of the limit
  MemoryPattern pattern;
};

// A buffer of such a device.
class OpenClBuffer final : public Buffer {
 public:
  OpenClBuffer(std::shared_ptr<Device> device, size_t size, MemoryKind kind, bool host_visible,
               MemoryPool& pool, MemoryPool::Block block)
      : Buffer(std::move(device), size, kind,
               host_visible ? static_cast<std::byte*>(block.data) : nullptr),
        pool_(pool),
        block_(block) {}
  ~OpenClBuffer() override { pool_.Free(block_); }

  std::byte* address() const { return static_cast<std::byte*>(block_.data); }

 private:
  MemoryPool& pool_;  // owned by the device, which Buffer keeps open
  const MemoryPool::Block block_;
};

class OpenClMemory {
 public:
  OpenClMemory(std::shared_ptr<OpenClContext> context, const OpenClMemoryOptions& options);
  // `options` with the defaults filled in.
  static OpenClMemoryOptions Completed(const OpenClContext& context, OpenClMemoryOptions options);
  // Of the largest buffer.
  static size_t MostBytes(const OpenClContext& context, const OpenClMemoryOptions& completed);

  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(std::shared_ptr<Device> device, size_t bytes,
                                                   MemoryKind kind);
  MemoryStats stats() const { return pool_.stats(); }

 private:
  const std::shared_ptr<OpenClContext> context_;
  const OpenClMemoryOptions options_;
  const size_t most_bytes_;
  const bool host_visible_;
  MemoryPool pool_;
};

}  // namespace uopd::devices::opencl
