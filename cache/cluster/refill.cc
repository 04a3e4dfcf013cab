// SPDX-License-Identifier: MIT
#include "cache/cluster/refill.h"

#include <algorithm>
#include <utility>

#include "core/base/status.h"

namespace uopd::cache {
namespace {

constexpr int64_t kPage = 256;

Digest LeaseAddress() { return HashBytes("refill of the shared tier"); }

}  // namespace

Refill::Refill(Cluster& cluster, const RefillOptions& options, Select select, Read read)
    : cluster_(cluster),
      options_(options),
      select_(std::move(select)),
      read_(std::move(read)),
      pause_(options.look) {
  if (options_.thread) thread_ = std::thread([this] { Loop(); });
}

Refill::~Refill() {
  {
    const MutexLock lock(mu_);
    stop_ = true;
  }
  stop_changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool Refill::stopped() {
  const MutexLock lock(mu_);
  return stop_;
}

std::chrono::milliseconds Refill::Look() {
  const absl::StatusOr<KeysAge> keys = cluster_.server()->AskKeysAge(cluster_.SendDeadline());
  if (keys.ok()) {
    if (!filled_ && keys->age_us >= options_.young_us) filled_ = keys->born_us;
    if (filled_ != keys->born_us && Pass().ok()) filled_ = keys->born_us;
  }
  const MutexLock lock(mu_);
  pause_ = keys.ok() ? std::min(2 * pause_, kMostPauses * options_.look) : options_.look;
  return pause_;
}

void Refill::LookSoon() {
  {
    const MutexLock lock(mu_);
    soon_ = true;
    pause_ = options_.look;
  }
  stop_changed_.notify_all();
}

void Refill::Loop() {
  while (!stopped()) {
    const std::chrono::milliseconds pause = Look();
    MutexLock lock(mu_);
    lock.WaitUntil(stop_changed_, std::chrono::steady_clock::now() + pause,
                   [this]() UOPD_REQUIRES(mu_) { return stop_ || soon_; });
    if (!soon_) continue;
    lock.WaitUntil(stop_changed_, std::chrono::steady_clock::now() + options_.look,
                   [this]() UOPD_REQUIRES(mu_) { return stop_; });
    soon_ = false;
  }
}

absl::StatusOr<bool> Refill::SendMissing(const EntryInfo& entry) {
  UOPD_ASSIGN(const bool there, cluster_.server()->Has(entry.address, cluster_.SendDeadline()));
  if (there) return false;
  auto row = read_(entry.address);
  // A row that is gone or damaged is not worth an end of the pass.
  if (!row.ok() || !row->has_value() || Checksum(**row) != (*row)->checksum) return false;
  UOPD_TRY(cluster_.SendQuietly(**row));
  return true;
}

absl::StatusOr<int64_t> Refill::Pass() {
  GuardedServer& server = *cluster_.server();
  int64_t token = 0;  // of the lease; 0: the server grants none
  if (server.coordinates()) {
    UOPD_ASSIGN(
        const LeaseResult lease,
        server.TryLease(LeaseAddress(), "refill", options_.lease_us, cluster_.SendDeadline()));
    if (!lease.granted()) return absl::UnavailableError("Another daemon fills the shared tier.");
    token = lease.token;
  }
  const auto renew = [&] {
    return token == 0 ? absl::OkStatus()
                      : server.Renew(LeaseAddress(), token, "refill", options_.lease_us,
                                     cluster_.SendDeadline());
  };
  const auto fill = [&]() -> absl::StatusOr<int64_t> {
    EntryQuery query{.order = EntryOrder::kLastUsed, .limit = kPage};
    int64_t sent = 0, rows = 0, bytes = 0;
    while (rows < options_.max_rows && bytes < options_.max_bytes) {
      UOPD_ASSIGN(const std::vector<EntryInfo> page, select_(query));
      for (const EntryInfo& entry : page) {
        if (stopped()) return absl::CancelledError("The daemon ends.");
        if (entry.store == kUnprovenStore || entry.store == kTuneStore) continue;
        UOPD_ASSIGN(const bool missing, SendMissing(entry));
        if (missing) ++sent, bytes += entry.bytes;
      }
      rows += static_cast<int64_t>(page.size());
      if (static_cast<int64_t>(page.size()) < kPage) break;
      query.after = {OrderValue(page.back(), query.order), page.back().address};
      UOPD_TRY(renew());
    }
    return sent;
  };
  absl::StatusOr<int64_t> sent = fill();
  if (token != 0) server.Release(LeaseAddress(), token, cluster_.SendDeadline()).IgnoreError();
  if (sent.ok()) cluster_.CountRefilled(*sent);
  return sent;
}

}  // namespace uopd::cache
