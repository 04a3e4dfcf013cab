// SPDX-License-Identifier: MIT
// Threads for work that is too long for the thread that received it. The threads are shared fairly
// among callers (fair_queue.h), and the number of tasks that wait is bounded.
//
// Thread-safe. Tasks of one caller start in the order of Post; several of them run at a time.
// Whoever starts new work holds an Admission until the work ends. Continuations of admitted work
// need no Admission of their own. The destructor runs what is queued and joins the threads.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/telemetry/trace.h"
#include "devices/api/host/thread_priority.h"
#include "server/engine/base/cancellation.h"
#include "server/engine/base/fair_queue.h"

namespace uopd::engine {

class TaskPool;
struct RequestContext;

// The place of one request among the requests that may wait or run. The destructor gives it back.
class Admission {
 public:
  Admission() = default;
  ~Admission() { Leave(); }
  Admission(Admission&& other) noexcept
      : task_pool_(std::exchange(other.task_pool_, nullptr)), caller_(std::move(other.caller_)) {}
  Admission& operator=(Admission&& other) noexcept {
    Leave();
    task_pool_ = std::exchange(other.task_pool_, nullptr);
    caller_ = std::move(other.caller_);
    return *this;
  }
  const Caller& caller() const { return caller_; }
  void Leave();

 private:
  friend class TaskPool;
  Admission(TaskPool* task_pool, Caller caller)
      : task_pool_(task_pool), caller_(std::move(caller)) {}
  TaskPool* task_pool_ = nullptr;
  Caller caller_;
};

class TaskPool {
 public:
  using Task = absl::AnyInvocable<void()>;

  // How many requests may wait or run.
  struct Bounds {
    size_t all = SIZE_MAX, of_peer = SIZE_MAX, of_flow = SIZE_MAX;
  };

 private:
  struct Item {
    Task task;
    std::shared_ptr<Cancellation> cancellation;  // null: the task waits as long as it takes
    uint64_t id = 0;                             // for tasks that can be withdrawn
    int64_t since_ns = NowNs();
  };

 public:
  using Running = FairQueue<Item>::Limits;

  TaskPool(int threads, size_t max_admitted) : TaskPool(threads, Bounds{.all = max_admitted}, {}) {}
  // `priority`: of the threads, and of what they launch on the host.
  TaskPool(int threads, Bounds bounds, Running running,
           devices::ThreadPriority priority = devices::ThreadPriority::kUsual);
  ~TaskPool();
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;

  // RESOURCE_EXHAUSTED: too many requests wait or run, in all, of this peer or of this flow. The
  // status names the setting.
  absl::StatusOr<Admission> Admit(const Caller& caller) UOPD_EXCLUDES(admission_mu_);

  void Post(Task task) { Post(Caller(), std::move(task)); }
  void Post(const Caller& caller, Task task) UOPD_EXCLUDES(mu_);
  // Posts a task of a request. If the request is cancelled before a thread is free, the thread that
  // cancels calls `task` at once. `task` must then only end the request.
  void Post(const RequestContext& request, Task task) UOPD_EXCLUDES(mu_);
  // Calls fn(i) for i in [0, n) on this thread and on idle threads of the pool. Returns when all
  // calls have returned.
  void ParallelFor(const Caller& caller, size_t n, const std::function<void(size_t)>& fn)
      UOPD_EXCLUDES(mu_);
  void ParallelFor(size_t n, const std::function<void(size_t)>& fn) { ParallelFor({}, n, fn); }

  int threads() const { return static_cast<int>(threads_.size()); }
  size_t waiting() const UOPD_EXCLUDES(mu_);  // tasks that have no thread yet
  int busy() const UOPD_EXCLUDES(mu_);        // threads that run a task
  // How long the task that has waited longest has waited; 0 if none waits.
  int64_t OldestWaitNs() const UOPD_EXCLUDES(mu_);
  // The time for which every thread has been busy with its present task; 0 if a thread is free.
  std::chrono::nanoseconds AllBusyFor() const UOPD_EXCLUDES(mu_);

 private:
  friend class Admission;
  void Leave(const Caller& caller) UOPD_EXCLUDES(admission_mu_);
  void Withdraw(const Caller& caller, uint64_t id) UOPD_EXCLUDES(mu_);
  void Work() UOPD_EXCLUDES(mu_);

  const Bounds bounds_;
  Mutex admission_mu_;
  size_t admitted_ UOPD_GUARDED_BY(admission_mu_) = 0;
  absl::flat_hash_map<std::string, size_t> of_peer_ UOPD_GUARDED_BY(admission_mu_);
  absl::flat_hash_map<std::string, size_t> of_flow_ UOPD_GUARDED_BY(admission_mu_);

  mutable Mutex mu_;
  std::condition_variable wake_;
  FairQueue<Item> tasks_ UOPD_GUARDED_BY(mu_);
  uint64_t next_id_ UOPD_GUARDED_BY(mu_) = 0;
  bool stop_ UOPD_GUARDED_BY(mu_) = false;
  int running_ UOPD_GUARDED_BY(mu_) = 0;  // number of tasks that run
  std::chrono::steady_clock::time_point all_busy_since_ UOPD_GUARDED_BY(mu_);
  std::vector<std::thread> threads_;
};

// Pools of threads, by the names that metrics have.
using NamedPools = std::vector<std::pair<const char*, const TaskPool*>>;

}  // namespace uopd::engine
