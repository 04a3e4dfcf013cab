// SPDX-License-Identifier: MIT
#include "devices/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>

#include "core/base/machine/process_limits.h"

namespace uopd::devices::cpu {
namespace {

// After this time a spinning thread lets others have its processor, if any of them can run.
constexpr std::chrono::microseconds kAlone(20);
// The time of spinning beside work of the lowest priority. It covers the pause between two kernels
// of a run.
constexpr std::chrono::microseconds kBesideIdle(200);

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

bool Stopped(const StopFlag* maybe_stop) { return maybe_stop != nullptr && maybe_stop->stopped(); }

// The processors that this process may run on.
std::vector<int> Processors() {
  std::vector<int> out;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return out;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) out.push_back(i);
  }
  return out;
}

void BindTo(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  (void)sched_setaffinity(0, sizeof set, &set);  // a worker that is not bound still works
}

}  // namespace

ThreadPool::ThreadPool(int threads, std::chrono::microseconds spin, ThreadPriority priority)
    // On a single core, spinning would keep the thread that one waits for from running.
    : spin_(UsableProcessors() > 1 ? spin : std::chrono::microseconds(0)),
      n_threads_(std::max(threads, 1)) {
  // With a quota of less than all processors, a thread must be able to go where one is free.
  if (const std::vector<int> processors = Processors();
      n_threads_ > 1 && processors.size() == static_cast<size_t>(n_threads_) &&
      !ProcessLimits::AtStart().quota) {
    bound_ = true;
    for (const int p : processors) workers_.emplace_back().processor = p;
  } else {
    for (int i = 1; i < n_threads_; ++i) workers_.emplace_back();
  }
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &old);  // signals belong to the daemon's own threads
  for (Worker& worker : workers_) {
    worker.thread = std::thread([this, priority, &worker] {
      LowerPriority(priority);
      if (worker.processor >= 0) BindTo(worker.processor);
      Work(worker);
    });
    pthread_setname_np(worker.thread.native_handle(), "uopd-cpu");
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(mu_);
    stop_.store(true, std::memory_order_relaxed);
    for (Worker& worker : workers_) worker.wake.notify_one();
  }
  for (Worker& worker : workers_) worker.thread.join();
}

template <class Done>
void ThreadPool::Spin(Done done) const {
  if (spin_.count() == 0) return;
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    for (int i = 0; i < 32; ++i) {  // reading the clock costs about as much as 32 polls
      if (done()) return;
      Pause();
    }
    const auto spun = std::chrono::steady_clock::now() - start;
    // A thread that yields to one of the lowest priority gets the processor back at the next tick
    // only, after up to 4 ms. Who wakes a thread that is parked gets the processor for it at once.
    const bool beside_idle = IdleWork::Running();
    if (spun >= (beside_idle ? std::min(spin_, kBesideIdle) : spin_)) return;
    if (spun >= kAlone && !beside_idle) sched_yield();
  }
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

ThreadPool::Loop* ThreadPool::Take(const Worker& worker) {
  for (size_t i = 0; i < loops_.size();) {
    Loop* loop = loops_[i];
    if (loop->next.load(std::memory_order_relaxed) >= loop->n) {
      Remove(loop);
    } else if (IsFor(*loop, worker)) {
      return loop;
    } else {
      ++i;
    }
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
  if (n <= 1 || workers_.empty()) {
    for (int64_t i = 0; i < n && !Stopped(maybe_stop); ++i) body(context, i);
    return;
  }
  Loop loop{n, body, context, maybe_stop, bound_ ? sched_getcpu() : -1};
  {
    MutexLock lock(mu_);
    loops_.push_back(&loop);
    open_.fetch_add(1, std::memory_order_relaxed);
    int64_t wanted = n - 1;
    for (Worker& worker : workers_) {
      if (wanted == 0) break;
      if (!worker.parked || !IsFor(loop, worker)) continue;
      worker.parked = false;
      worker.wake.notify_one();
      --wanted;
    }
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

void ThreadPool::Work(Worker& me) {
  for (;;) {
    Loop* loop;
    {
      MutexLock lock(mu_);
      loop = Take(me);
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
    const auto asked = [&] {
      return open_.load(std::memory_order_relaxed) > 0 || stop_.load(std::memory_order_relaxed);
    };
    Spin(asked);
    MutexLock lock(mu_);
    if (Take(me) != nullptr || stop_.load(std::memory_order_relaxed)) continue;
    me.parked = true;
    lock.Wait(me.wake, [&] { return !me.parked || stop_.load(std::memory_order_relaxed); });
    me.parked = false;
  }
}

}  // namespace uopd::devices::cpu
