// SPDX-License-Identifier: MIT
#include "devices/cpu/thread_pool.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>

#include "devices/api/host/thread_priority.h"

namespace uopd::devices::cpu {
namespace {

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

bool Stopped(const StopFlag* maybe_stop) { return maybe_stop != nullptr && maybe_stop->stopped(); }

}  // namespace

ThreadPool::ThreadPool(int threads, std::chrono::microseconds spin, bool background)
    // On a single core, spinning would keep the thread that one waits for from running.
    : spin_(std::thread::hardware_concurrency() > 1 ? spin : std::chrono::microseconds(0)) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &old);  // signals belong to the daemon's own threads
  for (int i = 1; i < threads; ++i) {
    threads_.emplace_back([this, background] {
      if (background) EnterBackground();
      Work();
    });
    pthread_setname_np(threads_.back().native_handle(), "uopd-cpu");
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(mu_);
    stop_.store(true, std::memory_order_relaxed);
    wake_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

template <class Done>
void ThreadPool::Spin(Done done) const {
  if (spin_.count() == 0) return;
  const auto until = std::chrono::steady_clock::now() + spin_;
  do {
    for (int i = 0; i < 32; ++i) {  // reading the clock costs about as much as 32 polls
      if (done()) return;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < until);
}

void ThreadPool::Iterate(Loop& loop) {
  for (int64_t i; (i = loop.next.fetch_add(1, std::memory_order_relaxed)) < loop.n;) {
    if (Stopped(loop.maybe_stop)) {
      loop.next.store(loop.n, std::memory_order_relaxed);  // no thread takes the remaining indices
      return;
    }
    loop.body(loop.context, i);
  }
}

ThreadPool::Loop* ThreadPool::Take() {
  while (!loops_.empty()) {
    Loop* loop = loops_.front();
    if (loop->next.load(std::memory_order_relaxed) < loop->n) return loop;
    Remove(loop);
  }
  return nullptr;
}

void ThreadPool::Remove(Loop* loop) {
  auto it = std::find(loops_.begin(), loops_.end(), loop);
  if (it == loops_.end()) return;
  loops_.erase(it);
  open_.fetch_sub(1, std::memory_order_relaxed);
}

void ThreadPool::Run(int64_t n, Body body, const void* context, const StopFlag* maybe_stop) {
  if (n <= 1 || threads_.empty()) {
    for (int64_t i = 0; i < n && !Stopped(maybe_stop); ++i) body(context, i);
    return;
  }
  Loop loop{n, body, context, maybe_stop};
  {
    MutexLock lock(mu_);
    loops_.push_back(&loop);
    open_.fetch_add(1, std::memory_order_relaxed);
    for (int64_t i = std::min<int64_t>(parked_, n - 1); i > 0; --i) wake_.notify_one();
  }
  Iterate(loop);
  {
    MutexLock lock(mu_);
    Remove(&loop);
  }
  // No worker can join the loop any more. This acquire pairs with the release of the last helper,
  // so its writes are visible here.
  const auto alone = [&] { return loop.helpers.load(std::memory_order_acquire) == 0; };
  Spin(alone);
  if (alone()) return;
  MutexLock lock(mu_);
  loop.caller_parked = true;
  lock.Wait(done_, alone);
}

void ThreadPool::Work() {
  for (;;) {
    Loop* loop;
    {
      MutexLock lock(mu_);
      loop = Take();
      if (loop == nullptr && stop_.load(std::memory_order_relaxed)) return;
      if (loop != nullptr) loop->helpers.fetch_add(1, std::memory_order_relaxed);
    }
    if (loop != nullptr) {
      Iterate(*loop);
      MutexLock lock(mu_);
      // The caller destroys the loop as soon as it sees 0, so the fetch_sub is the last access to
      // the loop.
      if (loop->caller_parked) done_.notify_all();
      loop->helpers.fetch_sub(1, std::memory_order_release);
      continue;
    }
    const auto wanted = [&] {
      return open_.load(std::memory_order_relaxed) > 0 || stop_.load(std::memory_order_relaxed);
    };
    Spin(wanted);
    if (wanted()) continue;
    MutexLock lock(mu_);
    ++parked_;
    lock.Wait(wake_, wanted);
    --parked_;
  }
}

}  // namespace uopd::devices::cpu
