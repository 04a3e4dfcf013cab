// SPDX-License-Identifier: MIT
#include "server/engine/run/run_control.h"

#include <algorithm>
#include <utility>

#include "core/base/text.h"
#include "server/engine/base/shutting_down.h"

namespace uopd::engine {
namespace {

// The time between two checks of the long runs. It is long enough to cost nothing and short enough
// that nobody notices the delay.
constexpr std::chrono::milliseconds kTick{5};
// Without runs the thread continues for this number of ticks before it sleeps. So runs that follow
// each other do not each have to wake it.
constexpr int kIdleTicks = 50;
constexpr std::chrono::milliseconds kIdleTick{20};

using Clock = RequestContext::Clock;

Clock::time_point EndOf(std::chrono::milliseconds limit) {
  return limit.count() == 0 ? Clock::time_point::max() : Clock::now() + limit;
}

}  // namespace

RunControl::RunControl(RunWatch& watch, const RequestContext& request, RunTerms terms,
                       bool long_run)
    : watch_(watch),
      request_(request),
      terms_(std::move(terms)),
      end_(EndOf(terms_.limit)),
      maybe_stop_(long_run ? std::make_shared<devices::StopFlag>() : nullptr) {
  if (maybe_stop_ != nullptr) watch_.Add(this);
}

RunControl::~RunControl() {
  if (maybe_stop_ != nullptr) watch_.Remove(this);
}

absl::Status RunControl::Why() {
  MutexLock lock(mu_);
  return ended_;
}

std::chrono::nanoseconds RunControl::Overdue() {
  MutexLock lock(mu_);
  return ended_.ok() ? std::chrono::nanoseconds(0) : Clock::now() - ended_at_;
}

void RunControl::Launching() {
  MutexLock lock(mu_);
  launched_ = true;
}

absl::Status RunControl::Check() {
  MutexLock lock(mu_);
  if (ended_.ok()) {
    ended_ = Ask();
    if (!ended_.ok()) ended_at_ = Clock::now();
  }
  if (!ended_.ok() && maybe_stop_ != nullptr) maybe_stop_->Stop();
  return ended_;
}

absl::Status RunControl::Ask() {
  if (watch_.stopped_all()) {
    return absl::UnavailableError(
        Cat(kShuttingDown, " and does not wait for the run any more: it was cut off"));
  }
  if (end_ != Clock::time_point::max() && Clock::now() >= end_) {
    return absl::ResourceExhaustedError(
        Cat("run takes longer than limits.run_ms (", terms_.limit.count(), " ms)"));
  }
  absl::Status caller = request_.Check();
  if (!caller.ok() && !(terms_.has_id && launched_)) return caller;
  if (!caller.ok() && !left_) left_ = Clock::now();
  return terms_.wanted ? terms_.wanted(left_) : absl::OkStatus();
}

RunWatch::RunWatch() : thread_([this] { Watch(); }) {}

RunWatch::~RunWatch() {
  {
    MutexLock lock(mu_);
    end_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void RunWatch::StopAll() {
  stop_all_.store(true, std::memory_order_relaxed);
  MutexLock lock(mu_);
  for (RunControl* run : runs_) run->Check().IgnoreError();  // the end of the run returns it
}

size_t RunWatch::size() const {
  MutexLock lock(mu_);
  return runs_.size();
}

std::chrono::nanoseconds RunWatch::LongestOverdue() const {
  MutexLock lock(mu_);
  std::chrono::nanoseconds out(0);
  for (RunControl* run : runs_) out = std::max(out, run->Overdue());
  return out;
}

void RunWatch::Add(RunControl* run) {
  {
    MutexLock lock(mu_);
    runs_.push_back(run);
    if (!std::exchange(parked_, false)) return;
  }
  changed_.notify_all();
}

void RunWatch::Remove(RunControl* run) {
  MutexLock lock(mu_);
  std::erase(runs_, run);
}

void RunWatch::Watch() {
  MutexLock lock(mu_);
  for (int idle = 0;; ++idle) {
    if (!runs_.empty()) idle = 0;
    if (idle >= kIdleTicks) {
      parked_ = true;
      lock.Wait(changed_, [this]() UOPD_REQUIRES(mu_) { return end_ || !parked_; });
      idle = 0;
    }
    if (end_) return;
    for (RunControl* run : runs_) run->Check().IgnoreError();  // the end of the run returns it
    const auto next = Clock::now() + (runs_.empty() ? kIdleTick : kTick);
    lock.WaitUntil(changed_, next, [this]() UOPD_REQUIRES(mu_) { return end_; });
  }
}

}  // namespace uopd::engine
