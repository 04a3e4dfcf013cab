// SPDX-License-Identifier: MIT
// The calls of one session, one at a time and in order: on the caller's thread when nothing is ahead, otherwise on the
// executor.
//
//   idle --TryEnter--> busy --Leave, nothing queued--> idle
//   idle --Post--> busy, a task of the executor runs the queue; one of it per turn, so that sessions share the threads
//
// Thread-safe. Owned by shared_ptr: a queued turn keeps the strand alive. The executor outlives it.
#pragma once
#include <deque>
#include <memory>

#include "core/base/mutex.h"
#include "server/engine/executor.h"

namespace uopd::engine {

class Strand : public std::enable_shared_from_this<Strand> {
 public:
  explicit Strand(Executor& executor) : executor_(executor) {}

  // True: nothing is ahead, and nothing else runs here until Leave.
  bool TryEnter() UOPD_EXCLUDES(mu_);
  void Leave() UOPD_EXCLUDES(mu_);
  // RESOURCE_EXHAUSTED when the executor is full; then the task is dropped.
  absl::Status Post(Executor::Task task) UOPD_EXCLUDES(mu_);

 private:
  void RunOne() UOPD_EXCLUDES(mu_);
  void PostTurn();

  Executor& executor_;
  Mutex mu_;
  bool busy_ UOPD_GUARDED_BY(mu_) = false;
  std::deque<Executor::Task> tasks_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::engine
