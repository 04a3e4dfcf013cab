// SPDX-License-Identifier: MIT
// Threads of one CPU device: ParallelFor for kernels that take microseconds.
//
// Thread-safe: several callers may run loops at the same time, also from inside a loop. They share
// the workers. A caller always takes part in its own loop, so loops finish even when all workers
// are busy elsewhere. A worker spins a little after its last work, then it parks. A parked worker
// takes about 50 us to start.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

#include "core/base/mutex.h"
#include "devices/api/stop_flag.h"

namespace uopd::devices::cpu {

class ThreadPool {
 public:
  // `threads` includes the caller: threads - 1 workers are started. With one thread every loop runs
  // inline. `background`: the workers have low priority (thread_priority.h).
  ThreadPool(int threads, std::chrono::microseconds spin, bool background = false);
  // REQUIRES: no loop is running.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls fn(i) for every i in [0, n), in any order and in parallel. Returns when all calls are
  // done. Once `maybe_stop` is set, no further call begins.
  template <class Fn>
  void ParallelFor(int64_t n, const Fn& fn, const StopFlag* maybe_stop = nullptr) {
    Run(
        n, [](const void* context, int64_t i) { (*static_cast<const Fn*>(context))(i); }, &fn,
        maybe_stop);
  }

 private:
  using Body = void (*)(const void* context, int64_t i);

  // One ParallelFor, on its caller's stack. Workers find it through loops_ only. A worker
  // increments `helpers` before it releases the lock. The caller leaves when the loop is no longer
  // in loops_ and `helpers` is 0.
  struct Loop {
    const int64_t n;
    const Body body;
    const void* const context;
    const StopFlag* const maybe_stop;
    std::atomic<int64_t> next{0};  // first index that no thread has taken yet
    std::atomic<int> helpers{0};   // incremented with mu_ held
    bool caller_parked = false;    // guarded by mu_
  };

  void Run(int64_t n, Body body, const void* context, const StopFlag* maybe_stop)
      UOPD_EXCLUDES(mu_);
  void Work() UOPD_EXCLUDES(mu_);
  // Returns the oldest loop with indices left, or null. Removes the loops that have none left.
  Loop* Take() UOPD_REQUIRES(mu_);
  void Remove(Loop* loop) UOPD_REQUIRES(mu_);
  static void Iterate(Loop& loop);
  // Spins until `done` holds or the spinning time is over.
  template <class Done>
  void Spin(Done done) const;

  const std::chrono::microseconds spin_;
  std::atomic<int> open_{0};  // size of loops_, for spinning workers
  std::atomic<bool> stop_{false};
  Mutex mu_;
  std::condition_variable wake_;  // for workers
  std::condition_variable done_;  // for callers
  std::deque<Loop*> loops_ UOPD_GUARDED_BY(mu_);
  int parked_ UOPD_GUARDED_BY(mu_) = 0;
  std::vector<std::thread> threads_;
};

}  // namespace uopd::devices::cpu
