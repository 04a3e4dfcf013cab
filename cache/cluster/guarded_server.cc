// SPDX-License-Identifier: MIT
#include "cache/cluster/guarded_server.h"

#include <algorithm>
#include <utility>

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
                             NowFn now, std::function<void(const std::string&)> on_change)
    : server_(std::move(server)),
      now_(std::move(now)),
      on_change_(std::move(on_change)),
      breaker_(options) {
  metrics::ClusterReachable().Set(1);
}

absl::Status GuardedServer::Allow() {
  if (breaker_.Allow(now_())) return absl::OkStatus();
  return absl::UnavailableError("The shared tier did not answer before; it is asked again later.");
}

void GuardedServer::Report(const absl::Status& status) {
  const bool was_open = breaker_.open();
  // ABORTED is an answer: a lease was lost. So is RESOURCE_EXHAUSTED: lookups go on where nothing more can be put.
  const bool answered = status.ok() || absl::IsAborted(status) || absl::IsResourceExhausted(status);
  // A server that never told how many daemons there are may have too many.
  const int64_t most_us = told_daemons() ? pace().MostLatePauseUs() : Pace::kMostLatePauseUs;
  breaker_.Report(answered, now_(), absl::IsDeadlineExceeded(status) ? most_us : 0);
  const bool is_open = breaker_.open();
  metrics::ClusterReachable().Set(is_open ? 0 : 1);
  if (was_open == is_open) return;
  changed_us_.store(now_(), std::memory_order_relaxed);
  if (!on_change_) return;
  on_change_(is_open ? Cat("The shared tier does not answer, this daemon goes on alone: ",
                           StatusText(status))
                     : "The shared tier answers again.");
}

template <class Call>
auto GuardedServer::Run(const Call& call) -> decltype(call()) {
  UOPD_TRY(Allow());
  auto out = call();
  Report(StatusOf(out));
  return out;
}

absl::StatusOr<std::optional<std::string>> GuardedServer::Get(const Digest& address,
                                                              Deadline deadline) {
  return Run([&] { return server_->Get(address, deadline); });
}

absl::StatusOr<bool> GuardedServer::Has(const Digest& address, Deadline deadline) {
  return Run([&] { return server_->Has(address, deadline); });
}

absl::StatusOr<bool> GuardedServer::HasAll(std::span<const Digest> addresses, Deadline deadline) {
  return Run([&] { return server_->HasAll(addresses, deadline); });
}

absl::StatusOr<bool> GuardedServer::Put(const Announcement& what, std::string_view record,
                                        int64_t fence, std::optional<Stream> stream,
                                        Deadline deadline) {
  return Run([&] { return server_->Put(what, record, fence, stream, deadline); });
}

absl::StatusOr<LeaseResult> GuardedServer::TryLease(const Digest& address, std::string_view owner,
                                                    int64_t ttl_us, Deadline deadline) {
  return Run([&] { return server_->TryLease(address, owner, ttl_us, deadline); });
}

absl::Status GuardedServer::Renew(const Digest& address, int64_t token, std::string_view owner,
                                  int64_t ttl_us, Deadline deadline) {
  return Run([&] { return server_->Renew(address, token, owner, ttl_us, deadline); });
}

absl::Status GuardedServer::Release(const Digest& address, int64_t token, Deadline deadline) {
  return Run([&] { return server_->Release(address, token, deadline); });
}

absl::Status GuardedServer::CheckNewest(const Digest& address, int64_t token, Deadline deadline) {
  return Run([&] { return server_->CheckNewest(address, token, deadline); });
}

absl::StatusOr<bool> GuardedServer::IsHeld(const Digest& address, Deadline deadline) {
  return Run([&] { return server_->IsHeld(address, deadline); });
}

absl::StatusOr<KeysAge> GuardedServer::AskKeysAge(Deadline deadline) {
  absl::StatusOr<KeysAge> age = Run([&] { return server_->AskKeysAge(deadline); });
  if (age.ok()) NoteDaemons(age->daemons);
  return age;
}

// A server that was emptied knows few daemons at first, so a smaller number is believed after a minute. Two threads that tell
// a number at once may mix them up, until the next one.
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
  return Run([&] { return server_->Listen(stream, cursor, deadline); });
}

}  // namespace uopd::cache
