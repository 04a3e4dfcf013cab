// SPDX-License-Identifier: MIT
#include "tests/simulation/server/server_link.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::sim {

template <class Apply>
auto ServerLink::Ask(Command command, const Digest* address, int64_t bytes,
                     cache::Deadline deadline, const Apply& apply)
    -> absl::StatusOr<decltype(apply(int64_t{}))> {
  SimClock& clock = tier_.clock();
  Stats& stats = tier_.stats();
  ++reach_.asked;
  const int64_t begin = clock.now_us, last = SimClock::Of(deadline);
  const auto fail = [&](int64_t at_us, int64_t& count) {
    ++count;
    connected_ = 0;
    clock.now_us = std::max(begin, std::min(at_us, last));
    // A connection that is refused is known at once, and a late answer is not.
    return clock.now_us == last ? absl::DeadlineExceededError("no answer in time")
                                : absl::UnavailableError("refused");
  };
  if (begin < reach_.cut_until_us) return fail(last, stats.timeouts);
  if (!tier_.up()) return fail(begin + tier_.Delay() + tier_.Delay(), stats.refused);
  int64_t at = begin + tier_.Delay();
  if (connected_ != tier_.births()) {
    const std::optional<int64_t> done = tier_.Serve(Command::kConnect, address, 0, at);
    if (!done) return fail(last, stats.refused);
    at = *done + tier_.Delay() + tier_.Delay();
    if (at > last) return fail(last, stats.timeouts);
    connected_ = tier_.births();
  }
  const std::optional<int64_t> done = tier_.Serve(command, address, bytes, at);
  if (!done) return fail(last, stats.refused);
  // The server does it even if nobody waits for the answer any more.
  auto answer = apply(*done + tier_.clock().wall_us() - begin);
  const int64_t back = *done + tier_.Delay();
  if (back > last) return fail(last, stats.timeouts);
  clock.now_us = back;
  stats.answer.Add(back - begin);
  return answer;
}

int64_t ServerLink::BytesOf(std::string_view store) const {
  if (store == kNoticeStore) return tier_.options().notice_bytes;
  return store == "kernel" ? tier_.options().kernel_bytes : tier_.options().tuning_bytes;
}

int64_t ServerLink::BytesOf(const Digest& address) const {
  if (!tier_.model().Has(address)) return 0;
  const std::optional<uint32_t> slot = tier_.keys().Find(address);
  return slot ? BytesOf(tier_.keys()[*slot].tuning ? "tuning" : "kernel") : 0;
}

absl::StatusOr<std::optional<std::string>> ServerLink::Get(const Digest& address,
                                                           cache::Deadline deadline) {
  return Ask(Command::kGet, &address, BytesOf(address), deadline,
             [&](int64_t at_us) -> std::optional<std::string> {
               const std::string* record = tier_.model().Get(address, at_us);
               if (record == nullptr) return std::nullopt;
               return *record;
             });
}

absl::StatusOr<bool> ServerLink::Has(const Digest& address, cache::Deadline deadline) {
  return Ask(Command::kHas, &address, 0, deadline,
             [&](int64_t) { return tier_.model().Has(address); });
}

// Of several shards each is asked in truth; here the shard of the first address does all the work.
absl::StatusOr<bool> ServerLink::HasAll(std::span<const Digest> addresses,
                                        cache::Deadline deadline) {
  if (addresses.empty()) return true;
  return Ask(Command::kHasAll, &addresses.front(), static_cast<int64_t>(addresses.size()), deadline,
             [&](int64_t) {
               return std::ranges::all_of(
                   addresses, [&](const Digest& one) { return tier_.model().Has(one); });
             });
}

absl::StatusOr<bool> ServerLink::Put(const cache::Announcement& what, std::string_view record,
                                     int64_t fence, std::optional<cache::Stream> stream,
                                     cache::Deadline deadline) {
  const int64_t bytes = BytesOf(what.store);
  UOPD_ASSIGN(const bool put,
              Ask(Command::kPut, &what.address, bytes, deadline, [&](int64_t at_us) {
                const bool taken = tier_.model().Put(what.address, record, fence, bytes, at_us);
                if (const auto slot = tier_.keys().Find(what.address); taken && slot)
                  tier_.keys()[*slot].reached = true;
                return taken;
              }));
  if (!put || !stream) return put;
  const int64_t wall = tier_.clock().wall_us() - tier_.clock().now_us;
  // The record is there even if nobody hears of it.
  Ask(Command::kAnnounce, nullptr, 0, deadline, [&](int64_t at_us) {
    if (*stream == cache::Stream::kPuts) {
      tier_.Announce(what, at_us - wall);
    } else {
      cache::Announcement notice = what;
      notice.record = record;
      tier_.model().notices().Add(notice);
    }
    return true;
  }).IgnoreError();
  return true;
}

absl::StatusOr<cache::LeaseResult> ServerLink::TryLease(const Digest& address,
                                                        std::string_view owner, int64_t ttl_us,
                                                        cache::Deadline deadline) {
  return Ask(Command::kLease, &address, 0, deadline,
             [&](int64_t at_us) { return tier_.model().TryLease(address, owner, ttl_us, at_us); });
}

absl::Status ServerLink::Renew(const Digest& address, int64_t token, std::string_view owner,
                               int64_t ttl_us, cache::Deadline deadline) {
  UOPD_ASSIGN(const bool ok, Ask(Command::kRenew, &address, 0, deadline, [&](int64_t at_us) {
                return tier_.model().Renew(address, token, owner, ttl_us, at_us);
              }));
  return ok ? absl::OkStatus() : cache::LeaseLost();
}

absl::Status ServerLink::Release(const Digest& address, int64_t token, cache::Deadline deadline) {
  UOPD_ASSIGN(const bool ok, Ask(Command::kRelease, &address, 0, deadline, [&](int64_t at_us) {
                return tier_.model().Release(address, token, at_us);
              }));
  return ok ? absl::OkStatus() : cache::LeaseLost();
}

absl::Status ServerLink::CheckNewest(const Digest& address, int64_t token,
                                     cache::Deadline deadline) {
  UOPD_ASSIGN(const bool ok, Ask(Command::kNewest, &address, 0, deadline,
                                 [&](int64_t) { return tier_.model().IsNewest(address, token); }));
  return ok ? absl::OkStatus() : cache::LeaseLost();
}

absl::StatusOr<bool> ServerLink::IsHeld(const Digest& address, cache::Deadline deadline) {
  return Ask(Command::kHeld, &address, 0, deadline,
             [&](int64_t at_us) { return tier_.model().IsHeld(address, at_us); });
}

absl::StatusOr<cache::KeysAge> ServerLink::AskKeysAge(cache::Deadline deadline) {
  return Ask(Command::kAge, nullptr, 0, deadline,
             [&](int64_t at_us) { return tier_.model().Age(reach_.number, at_us); });
}

absl::StatusOr<std::vector<cache::Announcement>> ServerLink::Listen(cache::Stream stream,
                                                                    std::string& cursor,
                                                                    cache::Deadline deadline) {
  if (stream == cache::Stream::kPuts)
    return absl::UnimplementedError("a daemon of a simulation waits by events");
  const AnnouncementLog& log = tier_.model().notices();
  uint64_t at = 0;
  const bool begun = absl::SimpleAtoi(cursor, &at);
  // First what is the newest one; and then those that are new.
  const auto last = deadline + std::chrono::seconds(1);
  UOPD_ASSIGN(const uint64_t end,
              Ask(Command::kNotices, nullptr, 0, last, [&](int64_t) { return log.end(); }));
  std::vector<cache::Announcement> out;
  if (begun && log.CountFrom(at) > 0) {
    const size_t count = std::min(log.CountFrom(at), kMostAnnouncements);
    UOPD_ASSIGN(out, Ask(Command::kNotices, nullptr, static_cast<int64_t>(count), last,
                         [&](int64_t) { return log.Read(at, log.end(), count); }));
  } else {
    at = end;
  }
  cursor = Cat(at);
  return out;
}

}  // namespace uopd::sim
