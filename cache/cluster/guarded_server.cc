// SPDX-License-Identifier: MIT
#include "cache/cluster/guarded_server.h"

#include <algorithm>
#include <utility>

#include "cache/base/lease/tokens.h"
#include "core/base/status.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"

namespace uopd::cache {
namespace {

absl::Status StatusOf(const absl::Status& status) { return status; }
template <class T>
absl::Status StatusOf(const absl::StatusOr<T>& value) {
  return value.status();
}

}  // namespace

GuardedServer::GuardedServer(std::unique_ptr<SharedServer> server, const BreakerOptions& options,
                             std::chrono::microseconds budget, NowFn now, SteadyFn steady,
                             std::function<void(const std::string&)> on_change)
    : server_(std::move(server)),
      budget_(budget),
      now_(std::move(now)),
      steady_(std::move(steady)),
      on_change_(std::move(on_change)),
      breaker_(options),
      times_(budget) {
  metrics::ClusterReachable().Set(1);
  metrics::ClusterTooSlow().Set(0);
}

absl::Status GuardedServer::Allow(Deadline begin, Deadline deadline) {
  if (times_.too_slow() && deadline - begin <= budget_) {
    const Deadline::rep at = begin.time_since_epoch().count();
    Deadline::rep timed = timed_.load();
    const bool probes = at - timed >= Deadline::duration(kProbePause).count() &&
                        timed_.compare_exchange_strong(timed, at);
    if (!probes)
      return absl::UnavailableError("The shared tier is too slow, so requests do not wait for it");
  }
  if (breaker_.Allow(now_())) return absl::OkStatus();
  return absl::UnavailableError("The shared tier did not answer before; it is asked again later");
}

bool GuardedServer::Report(const absl::Status& status) {
  const bool was_open = breaker_.open();
  // ABORTED is an answer: a lease was lost. So is RESOURCE_EXHAUSTED: lookups go on where nothing
  // more can be put.
  const bool answered = status.ok() || absl::IsAborted(status) || absl::IsResourceExhausted(status);
  if (!answered) {
    const MutexLock lock(mu_);
    last_failure_ = {status, now_()};
  }
  // A server that never told how many daemons there are may have too many.
  const int64_t most_us = told_daemons() ? pace().MostLatePauseUs() : Pace::kMostLatePauseUs;
  breaker_.Report(answered, now_(), absl::IsDeadlineExceeded(status) ? most_us : 0);
  const bool is_open = breaker_.open();
  metrics::ClusterReachable().Set(is_open ? 0 : 1);
  if (was_open == is_open) return answered;
  changed_us_.store(now_(), std::memory_order_relaxed);
  if (!on_change_) return answered;
  on_change_(is_open ? Cat("The shared tier does not answer, this daemon goes on alone: ",
                           StatusText(status))
                     : "The shared tier answers again");
  return answered;
}

void GuardedServer::NoteTime(const Asked& asked) {
  const Asked now = Now();
  if (now.connections != asked.connections) return;
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(now.at - asked.at);
  timed_.store(now.at.time_since_epoch().count());
  if (!times_.Note(took)) return;
  const bool slow = times_.too_slow();
  metrics::ClusterTooSlow().Set(slow ? 1 : 0);
  if (!on_change_) return;
  const auto tenths = [](std::chrono::microseconds us) {
    return Cat(us.count() / 1000, ".", us.count() / 100 % 10);
  };
  on_change_(slow
                 ? Cat("The shared tier answers after ", tenths(took),
                       " ms, which is more than half of cache.cluster_budget_ms (", tenths(budget_),
                       "); requests do not wait for it any more; it still gets what this daemon "
                       "computes, and what others put comes from it later")
                 : "The shared tier answers in time again, so requests ask it");
}

template <class Call>
auto GuardedServer::Run(Deadline deadline, bool short_question, const Call& call)
    -> decltype(call()) {
  const Asked asked = Now();
  UOPD_TRY(Allow(asked.at, deadline));
  auto out = call();
  if (Report(StatusOf(out)) && (short_question || deadline - asked.at <= budget_)) NoteTime(asked);
  return out;
}

absl::StatusOr<std::optional<std::string>> GuardedServer::Get(const Digest& address,
                                                              Deadline deadline) {
  return Run(deadline, false, [&] { return server_->Get(address, deadline); });
}

absl::StatusOr<bool> GuardedServer::Has(const Digest& address, Deadline deadline) {
  return Run(deadline, true, [&] { return server_->Has(address, deadline); });
}

absl::StatusOr<bool> GuardedServer::HasAll(std::span<const Digest> addresses, Deadline deadline) {
  return Run(deadline, false, [&] { return server_->HasAll(addresses, deadline); });
}

absl::StatusOr<bool> GuardedServer::Put(const Announcement& what, std::string_view record,
                                        int64_t fence, std::optional<Stream> stream,
                                        Deadline deadline) {
  return Run(deadline, false, [&] { return server_->Put(what, record, fence, stream, deadline); });
}

absl::StatusOr<LeaseResult> GuardedServer::TryLease(const Digest& address, std::string_view owner,
                                                    int64_t ttl_us, Deadline deadline) {
  absl::StatusOr<LeaseResult> lease =
      Run(deadline, true, [&] { return server_->TryLease(address, owner, ttl_us, deadline); });
  // Not a failure of the whole server: other keys may be all right.
  if (lease.ok() && lease->granted() && !IsPlausibleToken(lease->token, now_()))
    return absl::UnavailableError("The shared tier granted a lease with an impossible token");
  return lease;
}

absl::Status GuardedServer::Renew(const Digest& address, int64_t token, std::string_view owner,
                                  int64_t ttl_us, Deadline deadline) {
  return Run(deadline, true,
             [&] { return server_->Renew(address, token, owner, ttl_us, deadline); });
}

absl::Status GuardedServer::Release(const Digest& address, int64_t token, Deadline deadline) {
  return Run(deadline, true, [&] { return server_->Release(address, token, deadline); });
}

absl::Status GuardedServer::CheckNewest(const Digest& address, int64_t token, Deadline deadline) {
  return Run(deadline, true, [&] { return server_->CheckNewest(address, token, deadline); });
}

absl::StatusOr<bool> GuardedServer::IsHeld(const Digest& address, Deadline deadline) {
  return Run(deadline, true, [&] { return server_->IsHeld(address, deadline); });
}

absl::StatusOr<KeysAge> GuardedServer::AskKeysAge(Deadline deadline) {
  absl::StatusOr<KeysAge> age = Run(deadline, true, [&] { return server_->AskKeysAge(deadline); });
  if (!age.ok()) return age;
  NoteDaemons(age->daemons);
  age->age_us = std::clamp<int64_t>(age->age_us, 0, std::max<int64_t>(now_(), 0));
  return age;
}

// A server that was emptied knows few daemons at first, so a smaller number is believed after a
// minute. Two threads that tell a number at once may mix them up, until the next one.
void GuardedServer::NoteDaemons(int64_t daemons) {
  constexpr int64_t kBelieved = 60'000'000;
  daemons = std::clamp<int64_t>(daemons, 0, Pace::kMostDaemons);
  const int64_t now = now_();
  if (daemons < daemons_.load() && now - daemons_since_us_.load() < kBelieved) return;
  daemons_.store(daemons);
  daemons_since_us_.store(now);
}

absl::StatusOr<std::vector<Announcement>> GuardedServer::Listen(Stream stream, std::string& cursor,
                                                                Deadline deadline) {
  if (stream == Stream::kPuts) return server_->Listen(stream, cursor, deadline);
  const Asked asked = Now();
  absl::StatusOr<std::vector<Announcement>> heard =
      Run(Deadline::max(), false, [&] { return server_->Listen(stream, cursor, deadline); });
  if (heard.ok() && heard->empty()) NoteTime(asked);  // nothing waited, and nothing was sent
  return heard;
}

}  // namespace uopd::cache
