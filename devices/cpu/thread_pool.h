// SPDX-License-Identifier: MIT
// Threads of one CPU device: ParallelFor for kernels that take microseconds.
//
// Thread-safe: several callers may run loops at the same time, also from inside a loop. They share
// the workers. A caller always takes part in its own loop, so loops finish even when all workers
// are busy elsewhere. A worker spins for a while after its last work, then it parks: a parked
// worker takes about 50 us to start, in a virtual machine up to 200 us. So it should not park
// between the kernels of a program, nor while a caller computes the larger part of one. Spinning
// threads yield to others that can run.
//
// Linux may start a woken thread on the processor of the thread that woke it, and move it
// milliseconds later: then two threads take as long as one. So a pool with one thread for each
// processor keeps each worker on its own processor. A loop is for the workers of the processors
// that its caller does not run on.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

#include "core/base/mutex.h"
#include "devices/api/host/thread_priority.h"
#include "devices/api/stop_flag.h"

namespace uopd::devices::cpu {

class ThreadPool {
 public:
  // `threads` includes the caller. With one thread every loop runs inline. `priority`: of the
  // workers.
  ThreadPool(int threads, std::chrono::microseconds spin,
             ThreadPriority priority = ThreadPriority::kUsual);
  // REQUIRES: no loop is running.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return n_threads_; }

  // Calls fn(i) for every i in [0, n), in parallel. Returns when all calls are done. Calls begin in
  // the order of i, and the thread that begins a call takes no other one before its end. So fn(i)
  // may wait for what calls with a lower i do. Once `maybe_stop` is set, no further call begins:
  // then calls that others wait for may be missing.
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
    const int processor;           // of the caller; -1: workers are not bound to processors
    std::atomic<int64_t> next{0};  // first index that no thread has taken yet
    std::atomic<int> helpers{0};   // incremented with mu_ held
    bool caller_parked = false;    // guarded by mu_
  };

  struct Worker {
    int processor = -1;   // that the worker is bound to; -1: none
    bool parked = false;  // guarded by mu_
    std::condition_variable wake;
    std::thread thread;
  };

  void Run(int64_t n, Body body, const void* context, const StopFlag* maybe_stop)
      UOPD_EXCLUDES(mu_);
  void Work(Worker& me) UOPD_EXCLUDES(mu_);
  // Returns the oldest loop with indices left that is for `worker`, or null. Removes the loops that
  // have none left.
  Loop* Take(const Worker& worker) UOPD_REQUIRES(mu_);
  static bool IsFor(const Loop& loop, const Worker& worker) {
    return worker.processor < 0 || worker.processor != loop.processor;
  }
  void Remove(Loop* loop) UOPD_REQUIRES(mu_);
  static void Iterate(Loop& loop);
  // Spins until `done` holds or the spinning time is over.
  template <class Done>
  void Spin(Done done) const;

  const std::chrono::microseconds spin_;
  std::atomic<int> open_{0};  // size of loops_, for spinning workers
  std::atomic<bool> stop_{false};
  Mutex mu_;
  std::condition_variable done_;  // for callers
  std::deque<Loop*> loops_ UOPD_GUARDED_BY(mu_);
  const int n_threads_;
  bool bound_ = false;          // each worker is bound to a processor; set before they start
  std::deque<Worker> workers_;  // complete before the first one starts
};

}  // namespace uopd::devices::cpu
