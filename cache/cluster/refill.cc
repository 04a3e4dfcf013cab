// SPDX-License-Identifier: MIT
#include "cache/cluster/refill.h"

#include <algorithm>
#include <random>
#include <utility>

#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cache {
namespace {

constexpr int64_t kPage = 256;

Digest LeaseOf(int slot) {
  if (slot < 0) slot = static_cast<int>(std::random_device()() % Refill::kSlots);
  return HashBytes(Cat("refill of the shared tier ", slot));
}

}  // namespace

Refill::Refill(Cluster& cluster, const RefillOptions& options, Select select, Read read)
    : cluster_(cluster),
      options_(options),
      lease_(LeaseOf(options.slot)),
      select_(std::move(select)),
      read_(std::move(read)),
      random_(static_cast<uint32_t>(options.seed != 0 ? options.seed : std::random_device()())),
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
  const Deadline begin = cluster_.Now();
  const absl::StatusOr<KeysAge> keys = cluster_.server()->AskKeysAge(cluster_.SendDeadline());
  cluster_.NoteAnswer(begin);
  if (keys.ok()) {
    if (!filled_ && keys->age_us >= options_.young_us) filled_ = keys->born_us;
    if (filled_ != keys->born_us && Pass().ok()) filled_ = keys->born_us;
  }
  const std::chrono::milliseconds most = kMostPauses * options_.look, least = LeastPause();
  const MutexLock lock(mu_);
  pause_ = keys.ok() ? std::min(2 * pause_, most) : least;
  if (!keys.ok() || filled_ == keys->born_us) return pause_;
  return pause_ * (512 + random_() % 1024) / 1024;
}

std::chrono::milliseconds Refill::LeastPause() const {
  return std::min(cluster_.server()->pace().Gather(options_.look), kMostPauses * options_.look);
}

void Refill::LookSoon() {
  const std::chrono::milliseconds least = LeastPause();
  {
    const MutexLock lock(mu_);
    soon_ = true;
    pause_ = least;
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
    lock.WaitUntil(stop_changed_, std::chrono::steady_clock::now() + LeastPause(),
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

absl::Status Refill::SendMissingOf(std::span<const EntryInfo> entries, int64_t& sent,
                                   int64_t& bytes) {
  std::vector<Digest> addresses;
  for (const EntryInfo& entry : entries) addresses.push_back(entry.address);
  UOPD_ASSIGN(const bool all, cluster_.server()->HasAll(addresses, cluster_.SendDeadline()));
  if (all) return absl::OkStatus();
  for (const EntryInfo& entry : entries) {
    if (stopped()) return absl::CancelledError("The daemon ends");
    UOPD_ASSIGN(const bool missing, SendMissing(entry));
    if (missing) ++sent, bytes += entry.bytes;
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Refill::Pass() {
  GuardedServer& server = *cluster_.server();
  int64_t token = 0;  // of the lease; 0: the server grants none
  if (server.coordinates()) {
    UOPD_ASSIGN(const LeaseResult lease,
                server.TryLease(lease_, "refill", options_.lease_us, cluster_.SendDeadline()));
    if (!lease.granted()) return absl::UnavailableError("Another daemon fills the shared tier");
    token = lease.token;
  }
  const auto renew = [&] {
    return token == 0
               ? absl::OkStatus()
               : server.Renew(lease_, token, "refill", options_.lease_us, cluster_.SendDeadline());
  };
  const auto fill = [&]() -> absl::StatusOr<int64_t> {
    EntryQuery query{.order = EntryOrder::kLastUsed, .limit = kPage};
    int64_t sent = 0, rows = 0, bytes = 0;
    while (rows < options_.max_rows && bytes < options_.max_bytes) {
      UOPD_ASSIGN(const std::vector<EntryInfo> page, select_(query));
      std::vector<EntryInfo> entries = page;
      std::erase_if(entries, [](const EntryInfo& entry) {
        return entry.store == kUnprovenStore || entry.store == kTuneStore;
      });
      for (size_t at = 0; at < entries.size(); at += kRowsAtOnce) {
        if (stopped()) return absl::CancelledError("The daemon ends");
        const size_t n = std::min(kRowsAtOnce, entries.size() - at);
        UOPD_TRY(SendMissingOf(std::span(entries).subspan(at, n), sent, bytes));
      }
      rows += static_cast<int64_t>(page.size());
      if (static_cast<int64_t>(page.size()) < kPage) break;
      query.after = {OrderValue(page.back(), query.order), page.back().address};
      UOPD_TRY(renew());
    }
    return sent;
  };
  absl::StatusOr<int64_t> sent = fill();
  if (token != 0) server.Release(lease_, token, cluster_.SendDeadline()).IgnoreError();
  if (sent.ok()) cluster_.CountRefilled(*sent);
  return sent;
}

}  // namespace uopd::cache
