// SPDX-License-Identifier: MIT
#include "core/base/machine/memory_budget.h"

#include <algorithm>

namespace uopd {
namespace {

constexpr int64_t kMiB = 1 << 20;
// A worker with LLVM: 24 MiB of its own while it compiles random graphs, and what one large kernel
// takes more.
constexpr int64_t kWorkerBytes = 64 * kMiB;
// The daemon without what it holds for clients: programs, small graphs that are being compiled,
// messages that are being read, and what malloc keeps of all that. Two processors with all of it at
// once had up to 400 MiB (uopd_chaos confined), while workers had less than their share.
constexpr int64_t kDaemonBytes = 320 * kMiB, kDaemonProcessorBytes = 16 * kMiB;
constexpr int64_t kRetireBytes = 1024 * kMiB;

}  // namespace

MemoryBudget MemoryBudget::Of(const MemoryNeeds& needs) {
  const int64_t limit = std::max<int64_t>(needs.limit_bytes, 0);
  MemoryBudget out;
  // Workers that are not configured share a third with those that measure.
  const int64_t fit = limit / 3 / kWorkerBytes - needs.devices;
  const int pools = needs.upgrades ? 3 : 2;
  const auto each =
      static_cast<int>(std::clamp<int64_t>(fit / pools, 1, std::max(needs.processors, 1)));
  out.compile_threads = needs.compile_threads > 0 ? needs.compile_threads : each;
  out.tune_workers = needs.tune_workers > 0 ? needs.tune_workers : each;
  const int64_t workers = int64_t{out.compile_threads} * (pools - 1) + out.tune_workers;
  out.workers_bytes = (workers + needs.devices) * kWorkerBytes;
  out.daemon_bytes =
      std::min(limit / 3, kDaemonBytes + kDaemonProcessorBytes * std::max(needs.processors, 1));
  // A sixteenth is for freed buffers that are kept for later ones (devices/api/host/host_heap.h).
  const int64_t left = (limit - out.daemon_bytes - out.workers_bytes - needs.cache_bytes) / 16 * 15;
  out.clients_bytes = std::clamp(left, limit / 8, limit / 4 * 3);
  out.worker_retires_bytes = std::clamp(limit / 16, 2 * kWorkerBytes, kRetireBytes);
  return out;
}

}  // namespace uopd
