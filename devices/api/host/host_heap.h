// SPDX-License-Identifier: MIT
// Buffers in host memory, for devices whose memory it is.
//
// Owned by the device (a buffer keeps its device open, and so its heap). Thread-safe. Blocks of 2
// MiB and more are mapped on their own, aligned to and advised for huge pages. The limit is a
// promise to the machine: an allocation above it, or one that the machine has no free memory for,
// is RESOURCE_EXHAUSTED instead of an overcommitted mapping.
#pragma once
#include <cstddef>
#include <memory>

#include "devices/api/memory_pool.h"

namespace uopd::devices {

// Memory that this process may use: the machine's, or its control group's limit if that is lower.
size_t HostMemoryBytes();

class HostHeap {
 public:
  struct Options {
    size_t limit_bytes = 0;               // 0: three quarters of HostMemoryBytes()
    size_t keep_bytes = size_t{1} << 30;  // at most a quarter of the limit
    bool poison = false;  // fill every new buffer with kPoison, so that reads of fresh memory show
  };
  static constexpr unsigned char kPoison = 0xA5;

  explicit HostHeap(const Options& options);
  // The options that a heap made with these has: defaults filled in.
  static Options Completed(Options options);

  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(std::shared_ptr<Device> device, size_t bytes,
                                                   MemoryKind kind);
  MemoryStats stats() const { return pool_.stats(); }

 private:
  const Options options_;
  MemoryPool pool_;
};

}  // namespace uopd::devices
