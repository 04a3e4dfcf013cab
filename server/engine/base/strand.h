// SPDX-License-Identifier: MIT
// The calls of one session, one at a time and in order: on the caller's thread when nothing is
// ahead, otherwise on the executor.
//
//   idle --TryEnter--> busy --Leave, nothing queued--> idle
//   idle --Post--> busy, a task of the executor runs the queue; one of it per turn, so that
//   sessions share the threads
//
// A task may keep its turn beyond its own end, while something else works for the call: the next
// task starts when the turn ends.
//
// A call whose request is cancelled waits no longer: it leaves the queue.
//
// Thread-safe. Owned by shared_ptr: a queued turn keeps the strand alive. The executor outlives it.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>

#include "core/base/mutex.h"
#include "server/engine/base/executor.h"

namespace uopd::engine {

class Strand : public std::enable_shared_from_this<Strand> {
 public:
  // Held by whom the strand works for.
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

  explicit Strand(Executor& executor) : executor_(executor) {}

  // True: nothing is ahead, and nothing else runs here until Leave.
  bool TryEnter() UOPD_EXCLUDES(mu_);
  void Leave() UOPD_EXCLUDES(mu_);
  // Of work that the executor has admitted. If the request is cancelled before its turn, the thread
  // that cancels calls `task` at once, beside what runs here; `task` must then only end the
  // request.
  void Post(Admission admission, const RequestContext& request, HeldTask task) UOPD_EXCLUDES(mu_);
  // RESOURCE_EXHAUSTED when the executor does not admit it; then the task is dropped.
  absl::Status Post(const RequestContext& request, Executor::Task task);

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

  Executor& executor_;
  Mutex mu_;
  bool busy_ UOPD_GUARDED_BY(mu_) = false;
  std::deque<Waiting> tasks_ UOPD_GUARDED_BY(mu_);
  uint64_t next_id_ UOPD_GUARDED_BY(mu_) = 0;
};

}  // namespace uopd::engine
