// SPDX-License-Identifier: MIT
// The preparation of one caller's program. It holds no thread while it waits.
//
//   queued --Start--> working --Wait--> waiting --Finish--> done
//   working --Finish--> done
//   queued or waiting --the caller is cancelled, or its deadline passes--> done
//
// A caller may leave while a thread works for it. That work then notices, because it polls the
// request's limits, or else Wait notices. `done` is called exactly once, on the thread that ends
// the preparation. After that the request is not touched.
//
// Thread-safe. The timer outlives the preparation.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "core/base/mutex.h"
#include "server/engine/base/request_context.h"
#include "server/engine/base/timer.h"
#include "server/engine/compile/program/program.h"

namespace uopd::engine {

class Preparation : public std::enable_shared_from_this<Preparation> {
 public:
  using Answer = absl::StatusOr<std::shared_ptr<ProgramHandle>>;
  using Done = absl::AnyInvocable<void(Answer)>;

  // `request` stays where it is until `done` is called.
  Preparation(RequestContext& request, Timer& timer, Done done)
      : flow_(request.caller.flow), request_(request), timer_(timer), done_(std::move(done)) {}

  // From now on the caller may leave. Called once, before any other function.
  void Watch() UOPD_EXCLUDES(mu_);
  // A thread begins to work for the caller. False: the caller has left.
  bool Start() UOPD_EXCLUDES(mu_);
  // Another thread works for the caller. `left` is called when the caller leaves. False: it has
  // left.
  bool Wait(absl::AnyInvocable<void()> left) UOPD_EXCLUDES(mu_);
  // Ends the preparation. Adds the time that others spent, and what they found, to the request. No
  // effect if the caller has left.
  void Finish(Answer answer, const PhaseTimings& timings = {},
              const CacheOutcome* maybe_cache = nullptr) UOPD_EXCLUDES(mu_);
  // Ends the preparation with `why`: the caller does not want any other answer.
  void Leave(absl::Status why) UOPD_EXCLUDES(mu_);

  RequestContext& request() { return request_; }  // valid until the caller leaves
  const std::string& flow() const { return flow_; }

 private:
  enum State : uint8_t { kQueued, kWorking, kWaiting, kDone };
  // Stops listening for the caller. Called before `done`, because `done` may destroy the request.
  void Unwatch() UOPD_EXCLUDES(mu_);

  const std::string flow_;  // of the caller
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
