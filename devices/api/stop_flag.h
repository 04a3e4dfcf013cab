// SPDX-License-Identifier: MIT
// One word that says: nobody wants this any more. All launches of one run share it, those that are
// still queued too.
//
// Set from any thread, once and for good. What a driver does with it: a launch whose flag is set
// before it begins is skipped; a kernel that was compiled with polls looks at word() now and then
// and returns early; between the instances of a kernel the driver itself looks. What such a kernel
// had begun to write is unspecified. A driver that cannot stop a running kernel skips what is
// queued.
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
  // 32 bits, 0 until Stop. Kernels read them in place.
  const std::atomic<uint32_t>* word() const { return &word_; }

 private:
  std::atomic<uint32_t> word_{0};
};
static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free);

}  // namespace uopd::devices
