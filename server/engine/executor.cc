// SPDX-License-Identifier: MIT
#include "server/engine/executor.h"

#include <algorithm>
#include <memory>

#include "core/base/text.h"

namespace uopd::engine {

Executor::Executor(int threads, size_t max_admitted) : max_admitted_(max_admitted) {
  threads_.reserve(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

Executor::~Executor() {
  {
    MutexLock lock(mu_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status Executor::Admit() {
  if (admitted_.fetch_add(1, std::memory_order_relaxed) < max_admitted_) return absl::OkStatus();
  Leave();
  return absl::ResourceExhaustedError(
      Cat("daemon is busy: ", max_admitted_, " requests wait or run already"));
}

void Executor::Post(Task task) {
  {
    MutexLock lock(mu_);
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void Executor::ParallelFor(size_t n, const std::function<void(size_t)>& fn) {
  // Shared with helpers that may come after all is done: then they find no index left and touch
  // `fn` no more.
  struct Loop {
    Mutex mu;
    std::condition_variable done;
    size_t next UOPD_GUARDED_BY(mu) = 0;
    size_t finished UOPD_GUARDED_BY(mu) = 0;
  };
  auto loop = std::make_shared<Loop>();
  auto work = [loop, n, &fn] {
    for (;;) {
      size_t i;
      {
        MutexLock lock(loop->mu);
        if (loop->next == n) return;
        i = loop->next++;
      }
      fn(i);
      MutexLock lock(loop->mu);
      if (++loop->finished == n) loop->done.notify_all();
    }
  };
  const size_t helpers = std::min(threads_.size(), n > 0 ? n - 1 : 0);
  for (size_t i = 0; i < helpers; ++i) Post(work);
  work();
  MutexLock lock(loop->mu);
  lock.Wait(loop->done, [&]() UOPD_REQUIRES(loop->mu) { return loop->finished == n; });
}

void Executor::Work() {
  for (;;) {
    Task task;
    {
      MutexLock lock(mu_);
      lock.Wait(wake_, [this]() UOPD_REQUIRES(mu_) { return stop_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
      if (++running_ == threads()) all_busy_since_ = std::chrono::steady_clock::now();
    }
    task();
    task = nullptr;
    MutexLock lock(mu_);
    --running_;
  }
}

std::chrono::nanoseconds Executor::AllBusyFor() {
  MutexLock lock(mu_);
  if (running_ < threads()) return std::chrono::nanoseconds(0);
  return std::chrono::steady_clock::now() - all_busy_since_;
}

}  // namespace uopd::engine
