// SPDX-License-Identifier: MIT
// One word which says that nobody wants a run's results any more. All launches of one run share the
// flag, the launches that are still queued too.
//
// Any thread may set it, once and for good. A driver uses the flag as follows:
//   - A launch whose flag is set before the launch begins is skipped.
//   - A kernel that was compiled with polls reads word() now and then and returns early.
//   - Between the instances of a kernel the driver itself reads the flag.
// What such a kernel had begun to write is unspecified. A driver that cannot stop a running kernel
// only skips what is queued.
#pragma once
#include <atomic>
#include <cstdint>

namespace uopd::devices {

class StopFlag {
 public:
  StopFlag() = default;
  StopFlag(const StopFlag&) = delete;
  StopFlag& operator=(const StopFlag&) = delete;

  void Stop() { word_.store(1, std::memory_order_relaxed); }
  bool stopped() const { return word_.load(std::memory_order_relaxed) != 0; }
  // 32 bits, 0 until Stop is called. Kernels read the word in place.
  const std::atomic<uint32_t>* word() const { return &word_; }

 private:
  std::atomic<uint32_t> word_{0};
};
static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free);

}  // namespace uopd::devices
