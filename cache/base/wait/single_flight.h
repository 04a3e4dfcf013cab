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
#include <algorithm>
#include <condition_variable>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "cache/base/wait/flights.h"
#include "core/base/digest.h"
#include "core/base/mutex.h"
#include "core/base/work_limits.h"

namespace uopd::cache {

template <class R>
class SingleFlight {
 public:
  struct Result {
    absl::StatusOr<std::shared_ptr<const R>> value;
    bool waited = false;  // true: another caller computed it
  };

  // Calls compute(const WorkLimits&) -> absl::StatusOr<R>, unless another caller is computing the
  // key. A caller whose deadline has passed still computes if it is the first, but it never waits.
  // If the computation was given up, the error says what ended this caller: its cancellation or its
  // deadline.
  template <class F>
  Result Do(const Digest& key, const WorkLimits& limits, F&& compute) {
    for (;;) {
      const auto caller = std::make_shared<Caller>();
      const auto [flight, first] = flights_.Join(key, caller);
      if (first) return {Compute(key, *flight, limits, compute), false};
      if (absl::Status stopped = caller->Await(limits); !stopped.ok()) {
        flights_.Withdraw(*flight, caller);
        return {std::move(stopped), true};
      }
      Answer answer = caller->Get();
      if (!IsAboutCaller(answer.status())) return {std::move(answer), true};
    }
  }

  // The number of callers that wait for the key now.
  int waiters(const Digest& key) const { return std::max(0, flights_.wanted(key) - 1); }

 private:
  using Answer = absl::StatusOr<std::shared_ptr<const R>>;

  class Caller {
   public:
    void Give(const Answer& answer) UOPD_EXCLUDES(mu_) {
      {
        MutexLock lock(mu_);
        answer_ = answer;
      }
      landed_.notify_one();
    }
    // REQUIRES: Await returned OK.
    Answer Get() UOPD_EXCLUDES(mu_) {
      MutexLock lock(mu_);
      return *answer_;
    }
    // OK: the answer is there.
    absl::Status Await(const WorkLimits& limits) UOPD_EXCLUDES(mu_) {
      MutexLock lock(mu_);
      while (!answer_) {
        if (limits.IsCancelled()) {
          return absl::CancelledError("The request was cancelled while it waited for another one");
        }
        if (WorkLimits::Clock::now() >= limits.deadline) {
          return absl::DeadlineExceededError(
              "The deadline passed while waiting for another request");
        }
        lock.WaitUntil(landed_, limits.NextCheck(),
                       [this]() UOPD_REQUIRES(mu_) { return answer_.has_value(); });
      }
      return absl::OkStatus();
    }

   private:
    Mutex mu_;
    std::condition_variable landed_;
    std::optional<Answer> answer_ UOPD_GUARDED_BY(mu_);
  };
  using Table = Flights<std::shared_ptr<Caller>>;

  // Gives the answer to all at the end of the scope. So the waiters get an answer even if a library
  // below compute() throws.
  struct Landing {
    Landing(Table& table, const Digest& key, typename Table::Flight& flight)
        : table(table), key(key), flight(flight) {}
    ~Landing() {
      const auto callers = table.Land(key, flight);
      for (const auto& caller : *callers) caller->Give(answer);
    }
    Table& table;
    const Digest& key;
    typename Table::Flight& flight;
    Answer answer = absl::InternalError("The computation ended without an answer");
  };

  template <class F>
  Answer Compute(const Digest& key, typename Table::Flight& flight, const WorkLimits& limits,
                 F&& compute) {
    Landing landing(flights_, key, flight);
    // This caller has left when its limits say so, and is counted to the end.
    const WorkLimits for_all{
        .cancelled = [&] { return !limits.Check().ok() && flight.wanted() == 1; }};
    absl::StatusOr<R> value = compute(for_all);
    if (value.ok()) {
      landing.answer = std::make_shared<const R>(*std::move(value));
      return landing.answer;
    }
    landing.answer = value.status();
    if (!IsAboutCaller(value.status())) return landing.answer;
    absl::Status over = limits.Check();
    return over.ok() ? value.status() : over;
  }

  Table flights_;
};

}  // namespace uopd::cache
