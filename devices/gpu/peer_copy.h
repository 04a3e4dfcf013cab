// SPDX-License-Identifier: MIT
// Copies between two GPUs of one driver, without the host waiting for them.
//
// Directly from chip to chip where the driver allows it. Otherwise through two pieces of pinned
// memory by turns: the source fills one while the destination empties the other. The destination
// waits for the source on the chip. What the source does to the memory later is given to its chip
// once the destination is done with it.
//
// Stateless. The caller owns both streams, and no other thread uses them.
#pragma once
#include <cstddef>
#include <memory>

#include "core/base/status.h"
#include "devices/gpu/gpu_memory.h"
#include "devices/gpu/stream_queue.h"

namespace uopd::devices::gpu {

// One end of a copy.
struct CopyEnd {
  StreamQueue& queue;
  std::shared_ptr<GpuContext> context;
  std::shared_ptr<Buffer> buffer;  // a GpuBuffer on the chip
  size_t offset = 0;
};

// After what both queues have so far; what they get later comes after the copy. `staging` is memory
// that the buffer of `to` keeps. False: there is no pinned memory left, and nothing is queued.
// REQUIRES: bytes > 0.
bool QueuePeerCopy(const CopyEnd& from, const CopyEnd& to, size_t bytes, MemoryPool& staging);

}  // namespace uopd::devices::gpu
