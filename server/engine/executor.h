// SPDX-License-Identifier: MIT
// Threads for work that is too long for the thread that received it, with a bound on what may wait.
//
// Thread-safe. Tasks run in the order of Post, several at a time. Whoever starts new work asks
// Admit first; continuations of admitted work are posted freely. The destructor runs what is queued
// and joins.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "core/base/mutex.h"
#include "core/base/status.h"

namespace uopd::engine {

class Executor {
 public:
  using Task = absl::AnyInvocable<void()>;

  Executor(int threads, size_t max_admitted);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // RESOURCE_EXHAUSTED when max_admitted pieces of work wait or run. OK must be followed by one
  // Leave.
  absl::Status Admit();
  void Leave() { admitted_.fetch_sub(1, std::memory_order_relaxed); }

  void Post(Task task) UOPD_EXCLUDES(mu_);
  // Calls fn(i) for i in [0, n) on this thread and on idle ones of the pool; returns when all calls
  // have returned.
  void ParallelFor(size_t n, const std::function<void(size_t)>& fn) UOPD_EXCLUDES(mu_);

  int threads() const { return static_cast<int>(threads_.size()); }
  // For how long all threads have been in the tasks that they are in now; 0 when one is free.
  std::chrono::nanoseconds AllBusyFor() UOPD_EXCLUDES(mu_);

 private:
  void Work() UOPD_EXCLUDES(mu_);

  const size_t max_admitted_;
  std::atomic<size_t> admitted_{0};
  Mutex mu_;
  std::condition_variable wake_;
  std::deque<Task> tasks_ UOPD_GUARDED_BY(mu_);
  bool stop_ UOPD_GUARDED_BY(mu_) = false;
  int running_ UOPD_GUARDED_BY(mu_) = 0;  // tasks
  std::chrono::steady_clock::time_point all_busy_since_ UOPD_GUARDED_BY(mu_);
  std::vector<std::thread> threads_;
};

}  // namespace uopd::engine
