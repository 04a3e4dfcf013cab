// SPDX-License-Identifier: MIT
// What may end a run before its last step, and the stop word that its kernels poll. Which events
// end a run depends on whether its first launch has happened:
//
//   not launched: cancellation or deadline of the caller, and everything below
//   launched:     the time limit; the end of its session or the cancellation of its id
//                 (`terms.wanted`); the end of the daemon; and its caller, unless the run has a
//                 request id
//
// A run with a request id continues when its caller leaves, for up to session.grace_ms: the caller
// will come back for the result, and a run that stops half-way is useless. Whoever queues the run
// calls Check between the steps. For a run that may be long, the thread of RunWatch calls Check
// every few milliseconds and stops the kernels that run.
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

// How long a run may take, and what else may end it.
struct RunTerms {
  std::chrono::milliseconds limit{0};  // limits.run_ms; 0: none
  bool has_id = false;                 // continues without its caller once it has launched
  // Not OK if nobody can want the result: the session was closed, or the request was cancelled by
  // its id. `left` is the time when the caller was first found gone. Null: such a thing cannot
  // happen. Thread-safe.
  using TimePoint = RequestContext::Clock::time_point;
  std::function<absl::Status(std::optional<TimePoint> left)> wanted;
};

class RunWatch;

// One run, from its first step until its devices are done. `watch` and `request` outlive it.
class RunControl {
 public:
  // `long_run`: the run registers with the watch.
  RunControl(RunWatch& watch, const RequestContext& request, RunTerms terms, bool long_run);
  ~RunControl();
  RunControl(const RunControl&) = delete;
  RunControl& operator=(const RunControl&) = delete;

  // OK while the run may continue. After that always the reason why it may not. Any thread.
  absl::Status Check() UOPD_EXCLUDES(mu_);
  // The result of the last Check.
  absl::Status Why() UOPD_EXCLUDES(mu_);
  // The time since a Check first found that the run must end; 0 if none has.
  std::chrono::nanoseconds Overdue() UOPD_EXCLUDES(mu_);
  // Called before the first launch.
  void Launching() UOPD_EXCLUDES(mu_);
  // The flag for Stream::Launch. Null if no kernel of the run is long.
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

// The long runs of a daemon, and the thread that checks them. Thread-safe. Outlives the runs.
class RunWatch {
 public:
  RunWatch();
  ~RunWatch();
  RunWatch(const RunWatch&) = delete;
  RunWatch& operator=(const RunWatch&) = delete;

  // Ends every run, also runs that begin later, with UNAVAILABLE.
  void StopAll() UOPD_EXCLUDES(mu_);
  bool stopped_all() const { return stop_all_.load(std::memory_order_relaxed); }
  size_t size() const UOPD_EXCLUDES(mu_);
  // The longest time for which a run has continued after it was told to end. A large value means
  // that its device is stuck.
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
