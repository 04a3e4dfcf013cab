// SPDX-License-Identifier: MIT
// GuardedServer: a shared server behind a circuit breaker.
//
// A call that the breaker does not let through is UNAVAILABLE at once. So is one that a request
// waits for while the server is too slow for requests (AnswerTimes); it hurries: its deadline
// leaves it no more than the budget. Calls with more time go on then, and their answers show when
// the server is faster again. Where there are none, one call that hurries goes through in each
// kProbePause. Listening for puts goes through always: only the thread that listens waits for it.
//
// What the server says is checked here for what cannot be true (tokens, ages). Thread-safe, as the
// server behind it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "cache/base/blobs.h"
#include "cache/cluster/circuit_breaker.h"
#include "cache/cluster/pace.h"
#include "cache/cluster/shared_server.h"
#include "core/base/mutex.h"

namespace uopd::cache {

// AnswerTimes: whether a server that answers is too far away, or too busy, for questions that a
// request waits for.
//
// A new kernel costs about four questions: a lookup, the lease, a second look and the fence. A
// server that takes more than half of a question's budget costs each new kernel two budgets and
// more, for ever, and the circuit breaker sees nothing of it: the answers that come in time, and
// those of patient questions, keep it closed. So answers are counted: when kMajority more of them
// came late than in time, the server is too slow for requests; when as many more came in time, it
// is not any more. An answer that never came says nothing here: that is the breaker's. Thread-safe.
class AnswerTimes {
 public:
  static constexpr int kMajority = 4;

  // `budget`: of a question that a request waits for.
  explicit AnswerTimes(std::chrono::microseconds budget) : late_(budget / 2) {}

  // An answer to a short question came after so long. True: the verdict changed.
  bool Note(std::chrono::microseconds took) UOPD_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    more_late_ = std::clamp(more_late_ + (took > late_ ? 1 : -1), 0, kMajority);
    const bool slow = more_late_ == kMajority || (too_slow_ && more_late_ > 0);
    return too_slow_.exchange(slow) != slow;
  }
  bool too_slow() const { return too_slow_.load(std::memory_order_relaxed); }

 private:
  const std::chrono::microseconds late_;
  Mutex mu_;
  int more_late_ UOPD_GUARDED_BY(mu_) = 0;
  std::atomic<bool> too_slow_{false};
};

class GuardedServer final : public SharedServer {
 public:
  // `on_change` gets a sentence for the log when the breaker opens or closes, and when the server
  // gets too slow for requests or is not any more; from any thread. `budget`: of a call that a
  // request waits for.
  GuardedServer(std::unique_ptr<SharedServer> server, const BreakerOptions& options,
                std::chrono::microseconds budget, NowFn now, SteadyFn steady,
                std::function<void(const std::string&)> on_change);

  // Whether calls go through now.
  bool reachable() const { return !breaker_.open(); }
  // Whether requests do not wait for it, although it can be reached.
  bool too_slow() const { return times_.too_slow(); }
  static constexpr std::chrono::seconds kProbePause{16};
  // How much this daemon may ask for: the number of daemons is the greatest that the server told in
  // the last minute.
  Pace pace() const { return {.daemons = std::max<int64_t>(daemons_.load(), 0)}; }
  bool told_daemons() const { return daemons_.load() >= 0; }
  // For how many microseconds this has been so; since the start: for ever.
  int64_t UnchangedUs() const { return now_() - changed_us_.load(std::memory_order_relaxed); }
  // The last question that had no answer, and when that was. OK: there was none.
  struct Failure {
    absl::Status status;
    int64_t at_us = 0;
  };
  Failure last_failure() const UOPD_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    return last_failure_;
  }

  bool coordinates() const override { return server_->coordinates(); }
  absl::StatusOr<std::optional<std::string>> Get(const Digest& address, Deadline deadline) override;
  absl::StatusOr<bool> Has(const Digest& address, Deadline deadline) override;
  absl::StatusOr<bool> HasAll(std::span<const Digest> addresses, Deadline deadline) override;
  absl::StatusOr<bool> Put(const Announcement& what, std::string_view record, int64_t fence,
                           std::optional<Stream> stream, Deadline deadline) override;
  absl::StatusOr<LeaseResult> TryLease(const Digest& address, std::string_view owner,
                                       int64_t ttl_us, Deadline deadline) override;
  absl::Status Renew(const Digest& address, int64_t token, std::string_view owner, int64_t ttl_us,
                     Deadline deadline) override;
  absl::Status Release(const Digest& address, int64_t token, Deadline deadline) override;
  absl::Status CheckNewest(const Digest& address, int64_t token, Deadline deadline) override;
  absl::StatusOr<bool> IsHeld(const Digest& address, Deadline deadline) override;
  absl::StatusOr<KeysAge> AskKeysAge(Deadline deadline) override;
  absl::StatusOr<std::vector<Announcement>> Listen(Stream stream, std::string& cursor,
                                                   Deadline deadline) override;

 private:
  // OK: the call may go through, and Report must follow.
  absl::Status Allow(Deadline begin, Deadline deadline);
  // Returns whether it was an answer.
  bool Report(const absl::Status& status) UOPD_EXCLUDES(mu_);
  // When a question began, and how many connections there had been.
  struct Asked {
    Deadline at;
    int64_t connections;
  };
  Asked Now() const { return {steady_(), server_->connections()}; }
  void NoteTime(const Asked& asked);
  void NoteDaemons(int64_t daemons);
  // `short_question`: how long its answer takes depends on the server and on the way to it alone,
  // if nobody hurries.
  template <class Call>
  auto Run(Deadline deadline, bool short_question, const Call& call) -> decltype(call());

  const std::unique_ptr<SharedServer> server_;
  const std::chrono::microseconds budget_;
  const NowFn now_;
  const SteadyFn steady_;
  const std::function<void(const std::string&)> on_change_;
  CircuitBreaker breaker_;
  AnswerTimes times_;
  std::atomic<Deadline::rep> timed_{0};  // when an answer was timed last, or a probe went through
  std::atomic<int64_t> changed_us_{0};
  std::atomic<int64_t> daemons_{-1}, daemons_since_us_{0};  // -1: the server has told none
  mutable Mutex mu_;
  Failure last_failure_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::cache
