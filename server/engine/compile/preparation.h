// SPDX-License-Identifier: MIT
// One caller's way to its program, which holds no thread while it waits.
//
//   queued --Start--> working --Wait--> waiting --Finish--> done
//   working --Finish--> done
//   queued or waiting --the caller is cancelled, or its deadline passes--> done
//
// A caller that leaves while a thread works for it is noticed by that work, which polls the
// request's limits, or by Wait. `done` is called exactly once, on whichever thread ends it; from
// then on the request is not touched.
//
// Thread-safe. The timer outlives it.
#pragma once
#include <memory>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "core/base/mutex.h"
#include "server/engine/base/request_context.h"
#include "server/engine/base/timer.h"
#include "server/engine/compile/program.h"

namespace uopd::engine {

class Preparation : public std::enable_shared_from_this<Preparation> {
 public:
  using Made = std::shared_ptr<ProgramHandle>;
  using Done = absl::AnyInvocable<void(absl::StatusOr<Made>)>;

  // `request` stays where it is until `done` is called.
  Preparation(RequestContext& request, Timer& timer, Done done)
      : request_(request), timer_(timer), done_(std::move(done)) {}

  // From now on the caller may leave. Called once, first.
  void Watch() UOPD_EXCLUDES(mu_);
  // A thread works for it now; false: the caller has left.
  bool Start() UOPD_EXCLUDES(mu_);
  // Somebody else works for it; `left` is called when the caller leaves. False: it has left.
  bool Wait(absl::AnyInvocable<void()> left) UOPD_EXCLUDES(mu_);
  // What others spent and found is added to the request. No effect when the caller has left.
  void Finish(absl::StatusOr<Made> made, const PhaseTimings& timings = {},
              const CacheOutcome* maybe_cache = nullptr) UOPD_EXCLUDES(mu_);
  // The caller wants no answer but this.
  void Leave(absl::Status why) UOPD_EXCLUDES(mu_);

  RequestContext& request() { return request_; }  // while the caller has not left

 private:
  enum State : uint8_t { kQueued, kWorking, kWaiting, kDone };
  // Stops listening for the caller. Before `done`, after which there may be no request.
  void Unwatch() UOPD_EXCLUDES(mu_);

  RequestContext& request_;
  Timer& timer_;
  Mutex mu_;
  State state_ UOPD_GUARDED_BY(mu_) = kQueued;
  Done done_ UOPD_GUARDED_BY(mu_);
  absl::AnyInvocable<void()> left_ UOPD_GUARDED_BY(mu_);
  absl::Status why_left_ UOPD_GUARDED_BY(mu_);
  std::optional<Timer::Id> deadline_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::engine
