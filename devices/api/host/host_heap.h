// SPDX-License-Identifier: MIT
// Buffers in host memory, for devices whose memory is host memory.
//
// The device owns the heap. A buffer keeps its device open, and so the heap too. Thread-safe.
// Blocks of 2 MiB and more have their own mapping, which is aligned to huge pages and advised to
// use them. An allocation above the limit, or one that the machine has no free memory for, is
// RESOURCE_EXHAUSTED: the heap never makes an overcommitted mapping.
#pragma once
#include <cstddef>
#include <memory>

#include "devices/api/memory_pool.h"

namespace uopd::devices {

// Memory that this process may use: the machine's memory, or the limit of its control group if that
// is lower.
size_t HostMemoryBytes();

class HostHeap {
 public:
  struct Options {
    size_t limit_bytes = 0;               // 0: three quarters of HostMemoryBytes()
    size_t keep_bytes = size_t{1} << 30;  // freed bytes to keep; at most a quarter of the limit
    MemoryPattern pattern;
    // Fill every new buffer with zeros, unless there is a pattern. For devices whose kernels do not
    // write their outputs: a client must not see what another one has left.
    bool clear = false;
  };

  explicit HostHeap(const Options& options);
  // Returns `options` with the defaults filled in, as a heap made with `options` has them.
  static Options Completed(Options options);

  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(std::shared_ptr<Device> device, size_t bytes,
                                                   MemoryKind kind);
  MemoryStats stats() const { return pool_.stats(); }

 private:
  const Options options_;
  MemoryPool pool_;
};

}  // namespace uopd::devices
