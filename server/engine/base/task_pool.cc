// SPDX-License-Identifier: MIT
#include "server/engine/base/task_pool.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "core/base/text.h"
#include "server/engine/base/request_context.h"

namespace uopd::engine {
namespace {

std::string FlowKey(const Caller& caller) { return Cat(caller.peer, "\n", caller.flow); }

}  // namespace

void Admission::Leave() {
  if (task_pool_ != nullptr) std::exchange(task_pool_, nullptr)->Leave(caller_);
}

TaskPool::TaskPool(int threads, Bounds bounds, Running running, devices::ThreadPriority priority)
    : bounds_(bounds), tasks_(running) {
  threads_.reserve(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this, priority] {
      devices::LowerPriority(priority);
      Work();
    });
  }
}

TaskPool::~TaskPool() {
  {
    MutexLock lock(mu_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

absl::StatusOr<Admission> TaskPool::Admit(const Caller& caller) {
  MutexLock lock(admission_mu_);
  if (admitted_ >= bounds_.all) {
    return absl::ResourceExhaustedError(
        Cat("daemon is busy: ", bounds_.all, " requests (limits.waiting) wait or run already"));
  }
  size_t& peer = of_peer_[caller.peer];
  if (peer >= bounds_.of_peer) {
    return absl::ResourceExhaustedError(Cat("client ", caller.peer, " has ", bounds_.of_peer,
                                            " requests (limits.peer_waiting) that wait or run"));
  }
  size_t& flow = of_flow_[FlowKey(caller)];
  if (flow >= bounds_.of_flow) {
    return absl::ResourceExhaustedError(Cat("session or connection ", caller.flow, " has ",
                                            bounds_.of_flow,
                                            " requests (limits.flow_waiting) that wait or run"));
  }
  ++admitted_;
  ++peer;
  ++flow;
  return Admission(this, caller);
}

void TaskPool::Leave(const Caller& caller) {
  MutexLock lock(admission_mu_);
  --admitted_;
  const auto peer = of_peer_.find(caller.peer);
  if (--peer->second == 0) of_peer_.erase(peer);
  const auto flow = of_flow_.find(FlowKey(caller));
  if (--flow->second == 0) of_flow_.erase(flow);
}

void TaskPool::Post(const Caller& caller, Task task) {
  MutexLock lock(mu_);
  tasks_.Push(caller, {.task = std::move(task)});
  // Notify while holding the lock. Otherwise the task's owner may destroy the pool, once the task
  // has run, while this thread (which may be a device's) is still in this function.
  wake_.notify_one();
}

void TaskPool::Post(const RequestContext& request, Task task) {
  if (request.cancellation == nullptr) return Post(request.caller, std::move(task));
  {
    MutexLock lock(mu_);
    const uint64_t id = ++next_id_;
    absl::AnyInvocable<void()> watcher = [this, caller = request.caller, id] {
      Withdraw(caller, id);
    };
    if (request.cancellation->TryWatch(watcher)) {
      tasks_.Push(request.caller,
                  {.task = std::move(task), .cancellation = request.cancellation, .id = id});
      task = nullptr;
      wake_.notify_one();  // while holding the lock, as above
    }
  }
  if (task) task();
}

void TaskPool::Withdraw(const Caller& caller, uint64_t id) {
  std::optional<Item> item;
  {
    MutexLock lock(mu_);
    item = tasks_.Withdraw(caller, [id](const Item& i) { return i.id == id; });
    if (stop_) wake_.notify_all();  // perhaps this was the last task
  }
  if (item) item->task();
}

void TaskPool::ParallelFor(const Caller& caller, size_t n, const std::function<void(size_t)>& fn) {
  // Helpers share the loop. A helper may start after everything is done. It then finds no index
  // left and does not use `fn`.
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
  for (size_t i = 0; i < helpers; ++i) Post(caller, work);
  work();
  MutexLock lock(loop->mu);
  lock.Wait(loop->done, [&]() UOPD_REQUIRES(loop->mu) { return loop->finished == n; });
}

size_t TaskPool::waiting() const {
  MutexLock lock(mu_);
  return tasks_.size();
}

int64_t TaskPool::OldestWaitNs() const {
  const int64_t now = NowNs();
  int64_t oldest = now;
  const MutexLock lock(mu_);
  tasks_.EachFirst([&](const Item& item) { oldest = std::min(oldest, item.since_ns); });
  return now - oldest;
}

int TaskPool::busy() const {
  const MutexLock lock(mu_);
  return running_;
}

void TaskPool::Work() {
  for (;;) {
    std::optional<FairQueue<Item>::Taken> taken;
    {
      MutexLock lock(mu_);
      lock.Wait(wake_, [&]() UOPD_REQUIRES(mu_) {
        taken = tasks_.Pop();
        return taken.has_value() || (stop_ && tasks_.empty());
      });
      if (!taken) return;
      if (++running_ == threads()) all_busy_since_ = std::chrono::steady_clock::now();
    }
    if (taken->item.cancellation != nullptr) taken->item.cancellation->Unwatch();
    {
      std::optional<devices::IdleWork> idle;
      if (devices::PriorityOfThread() == devices::ThreadPriority::kIdle) idle.emplace();
      taken->item.task();
    }
    taken->item = {};  // destroys what the item holds before its place is free
    MutexLock lock(mu_);
    --running_;
    tasks_.Done(taken->flow);
    if (stop_) wake_.notify_all();  // perhaps this was the last task
  }
}

std::chrono::nanoseconds TaskPool::AllBusyFor() const {
  MutexLock lock(mu_);
  if (running_ < threads()) return std::chrono::nanoseconds(0);
  return std::chrono::steady_clock::now() - all_busy_since_;
}

}  // namespace uopd::engine
