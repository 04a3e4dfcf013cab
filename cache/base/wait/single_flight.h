// SPDX-License-Identifier: MIT
// One computation per key within a process: the first caller computes, the other callers wait for
// its answer.
//
// Thread-safe. The result is shared as a pointer to const. An error goes to the callers who wait
// now and is then forgotten: the next caller computes again. A waiter stops at its own deadline or
// cancellation.
//
// The computation works for all callers. Its limits end it only after the first caller and every
// waiter have left, that is when nobody needs the value any more. If it ends with CANCELLED or
// DEADLINE_EXCEEDED although somebody waits, the waiters do not get this error: one of them
// computes instead.
#pragma once
#include <chrono>
#include <condition_variable>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "cache/base/wait/wait.h"
#include "core/base/digest.h"
#include "core/base/interrupt.h"
#include "core/base/mutex.h"

namespace uopd::cache {

template <class R>
class SingleFlight {
 public:
  struct Result {
    absl::StatusOr<std::shared_ptr<const R>> value;
    bool waited = false;  // true: another caller computed it
  };

  // Calls compute(const WaitLimits&) -> absl::StatusOr<R>, unless another caller is computing the
  // key. A caller whose deadline has passed still computes if it is the first, but it never waits.
  // If the computation was given up, the error says what ended this caller: its cancellation or its
  // deadline.
  template <class F>
  Result Do(const Digest& key, const WaitLimits& limits, F&& compute) UOPD_EXCLUDES(mu_) {
    std::shared_ptr<Flight> flight;
    {
      MutexLock lock(mu_);
      for (;;) {
        auto [it, first] = flights_.try_emplace(key);
        if (first) {
          flight = it->second = std::make_shared<Flight>();
          break;
        }
        flight = it->second;
        ++flight->waiters;
        absl::Status stopped = Await(lock, *flight, limits);
        --flight->waiters;
        if (!stopped.ok()) return {std::move(stopped), true};
        if (!IsAboutCaller((*flight->answer).status())) return {*flight->answer, true};
      }
    }
    Landing landing(*this, key, *flight);
    const WaitLimits for_all{.cancelled = [&] { return !Over(limits).ok() && Deserted(*flight); }};
    landing.answer = Share(compute(for_all));
    if (IsAboutCaller(landing.answer.status())) {
      if (absl::Status over = Over(limits); !over.ok()) return {std::move(over), false};
    }
    return {landing.answer, false};
  }

  // The number of callers that wait for the key now.
  int waiters(const Digest& key) const UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    auto it = flights_.find(key);
    return it == flights_.end() ? 0 : it->second->waiters;
  }

 private:
  using Answer = absl::StatusOr<std::shared_ptr<const R>>;
  struct Flight {
    std::condition_variable landed;
    std::optional<Answer> answer;  // guarded by mu_
    int waiters = 0;               // guarded by mu_
  };

  // Publishes the answer at the end of the scope. So the waiters get an answer even if a library
  // below compute() throws.
  struct Landing {
    Landing(SingleFlight& owner, const Digest& key, Flight& flight)
        : owner(owner), key(key), flight(flight) {}
    ~Landing() {
      {
        MutexLock lock(owner.mu_);
        flight.answer = answer;
        owner.flights_.erase(key);
      }
      flight.landed.notify_all();
    }
    SingleFlight& owner;
    const Digest& key;
    Flight& flight;
    Answer answer = absl::InternalError("The computation ended without an answer");
  };

  static Answer Share(absl::StatusOr<R> value) {
    if (!value.ok()) return value.status();
    return std::make_shared<const R>(*std::move(value));
  }

  static absl::Status Over(const WaitLimits& limits) {
    if (limits.cancelled && limits.cancelled()) return CancelledByCaller();
    constexpr auto kNever = std::chrono::steady_clock::time_point::max();
    if (limits.deadline != kNever && std::chrono::steady_clock::now() >= limits.deadline)
      return DeadlinePassed();
    return absl::OkStatus();
  }

  bool Deserted(const Flight& flight) const UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return flight.waiters == 0;
  }

  absl::Status Await(MutexLock& lock, Flight& flight, const WaitLimits& limits) UOPD_REQUIRES(mu_) {
    constexpr std::chrono::milliseconds kPoll{10};  // how soon a cancellation is noticed
    for (;;) {
      if (flight.answer.has_value()) return absl::OkStatus();
      if (limits.cancelled && limits.cancelled()) {
        return absl::CancelledError("The request was cancelled while it waited for another one");
      }
      const auto now = std::chrono::steady_clock::now();
      if (now >= limits.deadline) {
        return absl::DeadlineExceededError("The deadline passed while waiting for another request");
      }
      const auto until = limits.cancelled ? std::min(now + kPoll, limits.deadline)
                                          : std::min(now + std::chrono::hours(1), limits.deadline);
      lock.WaitUntil(flight.landed, until, [&] { return flight.answer.has_value(); });
    }
  }

  mutable Mutex mu_;
  absl::flat_hash_map<Digest, std::shared_ptr<Flight>> flights_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::cache
