// SPDX-License-Identifier: MIT
// What may end a run before its last step, and the flag that its kernels poll.
//
//   not launched: the caller's cancellation or deadline, and all of the below
//   launched:     the time limit; the end of its session or its own cancellation (`terms.wanted`);
//                 the end of the daemon; and, unless the run has a request id, its caller
//
// A run with a request id goes on when its caller leaves: the caller will come back and ask for the
// result, and half a step is worth less than none. The run's own thread calls Check between steps;
// for a run that may be long the watch's thread does so every few milliseconds and stops what runs.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "core/base/mutex.h"
#include "devices/api/stop_flag.h"
#include "server/engine/base/request_context.h"

namespace uopd::engine {

// How long a run may take, and who else may end it.
struct RunTerms {
  std::chrono::milliseconds limit{0};  // limits.run_ms; 0: none
  bool has_id = false;                 // goes on without its caller once it has launched
  // Not OK when nobody can want the result: the session was closed, the request cancelled by its
  // id. `left` is when the caller was first found gone. Null: nothing of the kind. Thread-safe.
  using TimePoint = RequestContext::Clock::time_point;
  std::function<absl::Status(std::optional<TimePoint> left)> wanted;
};

class RunWatch;

// One run, from its first step to its last. Made and destroyed on the run's thread; both outlive
// it.
class RunControl {
 public:
  // `long_run`: registers with the watch.
  RunControl(RunWatch& watch, const RequestContext& request, RunTerms terms, bool long_run);
  ~RunControl();
  RunControl(const RunControl&) = delete;
  RunControl& operator=(const RunControl&) = delete;

  // OK while the run may go on; then for good why not. Any thread.
  absl::Status Check() UOPD_EXCLUDES(mu_);
  // As the last Check found it.
  absl::Status Why() UOPD_EXCLUDES(mu_);
  // How long ago a Check first found that the run must end; 0 when none has.
  std::chrono::nanoseconds Overdue() UOPD_EXCLUDES(mu_);
  // The first launch is about to happen.
  void Launching() UOPD_EXCLUDES(mu_);
  // For Launch; null when no kernel of the run is long.
  const std::shared_ptr<devices::StopFlag>& stop() const { return maybe_stop_; }

 private:
  absl::Status Ask() UOPD_REQUIRES(mu_);

  RunWatch& watch_;
  const RequestContext& request_;
  const RunTerms terms_;
  const RunTerms::TimePoint end_;
  const std::shared_ptr<devices::StopFlag> maybe_stop_;
  Mutex mu_;
  bool launched_ UOPD_GUARDED_BY(mu_) = false;
  std::optional<RunTerms::TimePoint> left_ UOPD_GUARDED_BY(mu_);
  absl::Status ended_ UOPD_GUARDED_BY(mu_);
  RunTerms::TimePoint ended_at_ UOPD_GUARDED_BY(mu_);
};

// The long runs of a daemon and the thread that looks after them. Thread-safe; outlives them.
class RunWatch {
 public:
  RunWatch();
  ~RunWatch();
  RunWatch(const RunWatch&) = delete;
  RunWatch& operator=(const RunWatch&) = delete;

  // Ends every run, those that begin later too: UNAVAILABLE.
  void StopAll() UOPD_EXCLUDES(mu_);
  bool stopped_all() const { return stop_all_.load(std::memory_order_relaxed); }
  size_t size() const UOPD_EXCLUDES(mu_);
  // For how long at most a run goes on that was told to end: its device is stuck where that is
  // long.
  std::chrono::nanoseconds LongestOverdue() const UOPD_EXCLUDES(mu_);

 private:
  friend class RunControl;
  void Add(RunControl* run) UOPD_EXCLUDES(mu_);
  void Remove(RunControl* run) UOPD_EXCLUDES(mu_);
  void Watch() UOPD_EXCLUDES(mu_);

  std::atomic<bool> stop_all_{false};
  mutable Mutex mu_;
  std::condition_variable changed_;
  bool end_ UOPD_GUARDED_BY(mu_) = false;
  bool parked_ UOPD_GUARDED_BY(mu_) = false;  // the thread sleeps until it is woken
  std::vector<RunControl*> runs_ UOPD_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace uopd::engine
