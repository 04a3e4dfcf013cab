// SPDX-License-Identifier: MIT
#include "server/engine/compile/program/preparation.h"

#include <utility>

#include "core/base/work_limits.h"

namespace uopd::engine {

void Preparation::Watch() {
  // Copies: the first of the two calls below may end this preparation, and the request with it.
  const std::shared_ptr<Cancellation> cancellation = request_.cancellation;
  const auto deadline = request_.deadline;
  const std::weak_ptr<Preparation> weak = weak_from_this();
  if (deadline != RequestContext::Clock::time_point::max()) {
    MutexLock lock(mu_);
    deadline_ = timer_.At(deadline, [weak] {
      if (const auto self = weak.lock()) self->Leave(DeadlinePassed());
    });
  }
  if (cancellation == nullptr) return;
  cancellation->Watch([weak, deadline] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    // gRPC also cancels requests whose deadline has passed.
    const bool late = RequestContext::Clock::now() >= deadline;
    self->Leave(late ? DeadlinePassed() : CancelledByCaller());
  });
}

void Preparation::Unwatch() {
  if (request_.cancellation != nullptr) request_.cancellation->Unwatch();
  std::optional<Timer::Id> deadline;
  {
    MutexLock lock(mu_);
    deadline = std::exchange(deadline_, std::nullopt);
  }
  if (deadline) timer_.Drop(*deadline);
}

bool Preparation::Start() {
  MutexLock lock(mu_);
  if (state_ != kQueued) return false;
  state_ = kWorking;
  return true;
}

bool Preparation::Wait(absl::AnyInvocable<void()> left) {
  absl::Status why;
  {
    MutexLock lock(mu_);
    if (state_ == kDone) return false;
    why = why_left_;
    if (why.ok()) {
      state_ = kWaiting;
      left_ = std::move(left);
      return true;
    }
  }
  Finish(std::move(why));
  return false;
}

void Preparation::Finish(Answer answer, const PhaseTimings& timings,
                         const CacheOutcome* maybe_cache) {
  Done done;
  {
    MutexLock lock(mu_);
    if (state_ == kDone) return;
    state_ = kDone;
    done = std::move(done_);
    left_ = nullptr;
  }
  Unwatch();
  request_.timings.Add(timings);
  if (maybe_cache != nullptr) request_.cache = *maybe_cache;
  done(std::move(answer));
}

void Preparation::Leave(absl::Status why) {
  Done done;
  absl::AnyInvocable<void()> left;
  {
    MutexLock lock(mu_);
    if (state_ == kWorking && why_left_.ok()) why_left_ = why;
    if (state_ == kWorking || state_ == kDone) return;
    state_ = kDone;
    done = std::move(done_);
    left = std::move(left_);
  }
  Unwatch();
  if (left) left();
  done(std::move(why));
}

}  // namespace uopd::engine
