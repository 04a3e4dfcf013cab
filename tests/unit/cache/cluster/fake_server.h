// SPDX-License-Identifier: MIT
// A shared server in memory that can be away, or answer what it likes. Leases are those of
// MemoryLeases.
#pragma once
#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cache/cluster/shared_server.h"
#include "cache/memory/memory_leases.h"
#include "core/base/mutex.h"
#include "core/base/status.h"

namespace uopd::cache {

// What the server knows. Several FakeServers can have the same.
struct FakeServerState {
  Mutex mu;
  std::condition_variable changed;
  std::map<Digest, std::pair<int64_t, std::string>> records UOPD_GUARDED_BY(mu);
  std::vector<Announcement> announced UOPD_GUARDED_BY(mu), notices UOPD_GUARDED_BY(mu);
  bool away UOPD_GUARDED_BY(mu) = false;
  int calls UOPD_GUARDED_BY(mu) = 0;
  MemoryLeases leases{WallClockUs};
  std::atomic<int64_t> connections{0};  // that were begun
  int64_t granted = 0;                  // the token of each lease, if it is not 0
  // The way to the server and back in simulated time: called for each question with its deadline.
  // Not OK: no answer came in time.
  std::function<absl::Status(Deadline)> travel;
  std::atomic<int64_t> born_us{1}, age_us{int64_t{3600} * 1'000'000}, daemons{2};

  void SetAway(bool now_away) {
    const MutexLock lock(mu);
    away = now_away;
  }
  // As a restart: no records any more, but the leases, which the tests of refills do not look at.
  void Empty() {
    const MutexLock lock(mu);
    records.clear();
    ++born_us;
  }
  int Calls() {
    const MutexLock lock(mu);
    return calls;
  }
};

class FakeServer final : public SharedServer {
 public:
  explicit FakeServer(std::shared_ptr<FakeServerState> state) : state_(std::move(state)) {}

  int64_t connections() const override { return state_->connections; }
  absl::StatusOr<std::optional<std::string>> Get(const Digest& address,
                                                 Deadline deadline) override {
    const MutexLock lock(state_->mu);
    UOPD_TRY(Answer(deadline));
    const auto it = state_->records.find(address);
    if (it == state_->records.end()) return std::nullopt;
    return it->second.second;
  }
  absl::StatusOr<bool> Has(const Digest& address, Deadline deadline) override {
    const MutexLock lock(state_->mu);
    UOPD_TRY(Answer(deadline));
    return state_->records.contains(address);
  }
  absl::StatusOr<bool> Put(const Announcement& what, std::string_view record, int64_t fence,
                           std::optional<Stream> stream, Deadline deadline) override {
    const MutexLock lock(state_->mu);
    UOPD_TRY(Answer(deadline));
    const auto it = state_->records.find(what.address);
    if (it != state_->records.end() && it->second.first > fence) return false;
    state_->records[what.address] = {fence, std::string(record)};
    if (!stream) return true;
    if (*stream == Stream::kNotices) {
      state_->notices.push_back(what);
      state_->notices.back().record = record;
      return true;
    }
    state_->announced.push_back(what);
    state_->changed.notify_all();
    return true;
  }
  absl::StatusOr<LeaseResult> TryLease(const Digest& address, std::string_view owner,
                                       int64_t ttl_us, Deadline deadline) override {
    UOPD_TRY(Check(deadline));
    LeaseResult lease = state_->leases.TryLease(address, owner, ttl_us);
    if (lease.granted() && state_->granted != 0) lease.token = state_->granted;
    return lease;
  }
  absl::Status Renew(const Digest& address, int64_t token, std::string_view, int64_t ttl_us,
                     Deadline deadline) override {
    UOPD_TRY(Check(deadline));
    return state_->leases.Renew(address, token, ttl_us);
  }
  absl::Status Release(const Digest& address, int64_t token, Deadline deadline) override {
    UOPD_TRY(Check(deadline));
    return state_->leases.Release(address, token);
  }
  absl::Status CheckNewest(const Digest& address, int64_t token, Deadline deadline) override {
    UOPD_TRY(Check(deadline));
    return state_->leases.CheckNewest(address, token);
  }
  absl::StatusOr<bool> IsHeld(const Digest& address, Deadline deadline) override {
    UOPD_TRY(Check(deadline));
    return state_->leases.IsHeld(address);
  }
  absl::StatusOr<KeysAge> AskKeysAge(Deadline deadline) override {
    UOPD_TRY(Check(deadline));
    return KeysAge{state_->born_us, state_->age_us, state_->daemons};
  }
  absl::StatusOr<std::vector<Announcement>> Listen(Stream stream, std::string& cursor,
                                                   Deadline /*deadline*/) override {
    if (state_->travel) UOPD_TRY(state_->travel(Deadline::max()));
    MutexLock lock(state_->mu);
    if (state_->away) return absl::UnavailableError("away");
    const std::vector<Announcement>& all =
        stream == Stream::kPuts ? state_->announced : state_->notices;
    if (cursor.empty()) cursor = std::to_string(all.size());
    const auto at = static_cast<size_t>(std::stoull(cursor));
    // Short, so that the end of a test does not wait.
    if (stream == Stream::kPuts)
      lock.WaitUntil(state_->changed,
                     std::chrono::steady_clock::now() + std::chrono::milliseconds(20),
                     [&]() UOPD_REQUIRES(state_->mu) { return all.size() > at; });
    const size_t end = std::min(all.size(), at + kMostAnnouncements);
    cursor = std::to_string(end);
    return std::vector<Announcement>(all.begin() + static_cast<int64_t>(at),
                                     all.begin() + static_cast<int64_t>(end));
  }

 private:
  absl::Status Answer(Deadline deadline) UOPD_REQUIRES(state_->mu) {
    ++state_->calls;
    if (state_->travel) UOPD_TRY(state_->travel(deadline));
    return state_->away ? absl::UnavailableError("away") : absl::OkStatus();
  }
  absl::Status Check(Deadline deadline) {
    const MutexLock lock(state_->mu);
    return Answer(deadline);
  }
  const std::shared_ptr<FakeServerState> state_;
};

}  // namespace uopd::cache
