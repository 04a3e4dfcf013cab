// SPDX-License-Identifier: MIT
// Low priorities for threads whose work nobody waits for, or not soon.
//
// A thread lowers its own priority and keeps the low priority: raising it again needs a privilege.
// Devices whose kernels run on the host respect this: what a thread of low priority launches runs
// on threads of the same low priority.
#pragma once
#include <atomic>
#include <cstdint>

namespace uopd::devices {

// Each gives way to those before it, and has the whole processor if none of them runs.
enum class ThreadPriority : uint8_t {
  kUsual,
  kBackground,  // long runs: nice 10, batch scheduling
  kIdle,        // what no client waits for: nice 19, batch scheduling
};

// From now on the calling thread has this priority. A thread never rises: a higher priority than
// its own has no effect.
void LowerPriority(ThreadPriority priority);
ThreadPriority PriorityOfThread();

// Work of the priority kIdle, by a thread of this process or by a process that it waits for.
// Threads of higher priority want to know that there is some. Thread-safe.
class IdleWork {
 public:
  IdleWork() { running_.fetch_add(1, std::memory_order_relaxed); }
  ~IdleWork() { running_.fetch_sub(1, std::memory_order_relaxed); }
  IdleWork(const IdleWork&) = delete;
  IdleWork& operator=(const IdleWork&) = delete;
  static bool Running() { return running_.load(std::memory_order_relaxed) > 0; }

 private:
  static inline std::atomic<int> running_{0};
};

}  // namespace uopd::devices
