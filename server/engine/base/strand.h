// SPDX-License-Identifier: MIT
// Runs the calls of one session in order, one at a time. A call runs on the caller's thread if no
// other call is ahead of it, otherwise on the task pool.
//
//   idle --TryEnter--> busy --Leave, nothing queued--> idle
//   idle --Post--> busy: a task of the pool runs the queue, one call per turn, so that sessions
//   share the threads
//
// A task may keep its Turn after it has returned, while something else works for the call. The next
// task starts when the Turn ends.
//
// If the request of a waiting call is cancelled, the call leaves the queue at once.
//
// Thread-safe. Owned by shared_ptr: a queued turn keeps the strand alive. The task pool outlives
// the strand.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>

#include "core/base/mutex.h"
#include "server/engine/base/task_pool.h"

namespace uopd::engine {

class Strand : public std::enable_shared_from_this<Strand> {
 public:
  // The right to run on the strand. Whoever works for the current call holds it.
  class Turn {
   public:
    Turn() = default;
    ~Turn() { End(); }
    Turn(Turn&& other) noexcept
        : strand_(std::move(other.strand_)), admission_(std::move(other.admission_)) {}
    Turn& operator=(Turn&&) = delete;
    void End();

   private:
    friend class Strand;
    Turn(std::shared_ptr<Strand> strand, Admission admission)
        : strand_(std::move(strand)), admission_(std::move(admission)) {}
    std::shared_ptr<Strand> strand_;
    Admission admission_;
  };
  using HeldTask = absl::AnyInvocable<void(Turn)>;

  explicit Strand(TaskPool& task_pool) : task_pool_(task_pool) {}

  // True: no call is ahead, and nothing else runs on this strand until Leave.
  bool TryEnter() UOPD_EXCLUDES(mu_);
  void Leave() UOPD_EXCLUDES(mu_);
  // Posts work that the task pool has admitted. If the request is cancelled before its turn, the
  // thread that cancels calls `task` at once, even while another call runs on this strand. `task`
  // must then only end the request.
  void Post(Admission admission, const RequestContext& request, HeldTask task) UOPD_EXCLUDES(mu_);
  // RESOURCE_EXHAUSTED: the task pool does not admit the task, and drops it.
  absl::Status Post(const RequestContext& request, TaskPool::Task task);

 private:
  struct Waiting {
    HeldTask task;
    Admission admission;
    std::shared_ptr<Cancellation> cancellation;  // may be null
    uint64_t id = 0;
  };
  void Withdraw(uint64_t id) UOPD_EXCLUDES(mu_);
  void RunOne() UOPD_EXCLUDES(mu_);
  void PostTurn(const Caller& caller);

  TaskPool& task_pool_;
  Mutex mu_;
  bool busy_ UOPD_GUARDED_BY(mu_) = false;
  std::deque<Waiting> tasks_ UOPD_GUARDED_BY(mu_);
  uint64_t next_id_ UOPD_GUARDED_BY(mu_) = 0;
};

}  // namespace uopd::engine
