// SPDX-License-Identifier: MIT
#include "cache/cluster/cluster.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "core/base/status.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"

namespace uopd::cache {
namespace {

// A client may name any environment; more than these are not followed.
constexpr size_t kMaxEnvironments = 4096;
constexpr size_t kMaxSent = 16'384;
// A server that answers and does not take a row (too large, no memory left) may never do.
constexpr int kMaxTries = 5;

}  // namespace

Cluster::Cluster(std::unique_ptr<SharedServer> server, ClusterOptions options)
    : options_(std::move(options)),
      server_(std::make_shared<GuardedServer>(std::move(server), options_.breaker, options_.now,
                                              options_.on_change)) {
  if (options_.threads) sender_ = std::thread([this] { SendLoop(); });
  metrics::ClusterConfigured().Set(1);
  // All reasons have a series from the start, so that the first record that is refused is a rise.
  for (size_t fault = 1; fault < ClusterStats::kFaults; ++fault) {
    metrics::ClusterRefused({Name(static_cast<RecordFault>(fault))});
  }
}

Cluster::~Cluster() {
  StopListening();
  {
    const MutexLock lock(mu_);
    stop_ = true;
  }
  changed_.notify_all();
  if (sender_.joinable()) sender_.join();
}

Cluster::Found Cluster::Get(const Key& key) {
  Follow(key.environment());
  const Deadline begin = options_.steady();
  const Found found = Fetch(key.address(), begin + options_.budget);
  metrics::ClusterLookupDuration().Observe(
      std::chrono::duration<double>(options_.steady() - begin).count());
  switch (found.outcome) {
    case GetOutcome::kHit:
      ++stats_.hits;
      metrics::ClusterLookups({"hit"}).Increment();
      break;
    case GetOutcome::kUnavailable:
      ++stats_.unavailable;
      metrics::ClusterLookups({"unavailable"}).Increment();
      break;
    default:
      ++stats_.misses;
      metrics::ClusterLookups({found.outcome == GetOutcome::kMiss ? "miss" : "refused"})
          .Increment();
  }
  return found;
}

Cluster::Found Cluster::Fetch(const Digest& address, Deadline deadline) {
  const absl::StatusOr<std::optional<std::string>> bytes = server_->Get(address, deadline);
  if (!bytes.ok()) return {.outcome = GetOutcome::kUnavailable};
  if (!bytes->has_value()) return {.outcome = GetOutcome::kMiss};
  RecordResult record = ReadRecord(**bytes, address, options_.trusted, options_.max_record_bytes);
  if (record.fault != RecordFault::kNone) {
    ++stats_.refused[static_cast<size_t>(record.fault)];
    metrics::ClusterRefused({Name(record.fault)}).Increment();
    // A version that this daemon does not know is as good as none.
    return {.outcome =
                record.fault == RecordFault::kVersion ? GetOutcome::kMiss : GetOutcome::kCorrupt};
  }
  record.row->last_used_us = options_.now();
  return {.outcome = GetOutcome::kHit, .row = std::make_shared<const Row>(*std::move(record.row))};
}

absl::StatusOr<int64_t> Cluster::SettledUs() {
  UOPD_ASSIGN(const KeysAge keys, server_->AskKeysAge(options_.steady() + options_.budget));
  if (!server_->reachable()) return absl::UnavailableError("The shared tier does not answer.");
  return std::min(keys.age_us, server_->UnchangedUs());
}

void Cluster::Follow(const std::string& environment) {
  const Digest digest = HashBytes(environment);
  const MutexLock lock(mu_);
  if (environments_.size() < kMaxEnvironments) environments_.insert(digest);
}

bool Cluster::Uses(const Digest& environment) {
  const MutexLock lock(mu_);
  return environments_.contains(environment);
}

void Cluster::Put(std::shared_ptr<const Row> row, Settled settled) {
  absl::Status refused;
  if (!options_.sign.can_sign()) {
    refused = absl::FailedPreconditionError("This daemon has no key to sign records with.");
  } else {
    const MutexLock lock(mu_);
    const int64_t size = SizeOf(*row);
    if (stats_.queued_bytes + size <= static_cast<int64_t>(options_.queue_bytes)) {
      AddQueued(size);
      ++unsettled_;
      if (!settled) settled = [](const absl::Status&) {};
      queue_.push_back({std::move(row), settled});
    } else {
      CountDropped(1);
      refused = absl::ResourceExhaustedError("Too many rows wait for the shared tier.");
    }
  }
  changed_.notify_all();
  if (!refused.ok() && settled) settled(refused);
}

void Cluster::AddQueued(int64_t bytes) {
  stats_.queued_bytes += bytes;
  metrics::ClusterQueue().Set(static_cast<double>(stats_.queued_bytes));
}

void Cluster::CountDropped(int64_t rows) {
  stats_.dropped += rows;
  metrics::ClusterPuts({"dropped"}).Increment(static_cast<uint64_t>(rows));
}

void Cluster::Flush() {
  MutexLock lock(mu_);
  lock.Wait(changed_, [this]() UOPD_REQUIRES(mu_) { return unsettled_ == 0; });
}

absl::Status Cluster::Send(const Row& row) {
  const Digest address = KeyOf(row).address();
  {
    const MutexLock lock(mu_);
    if (sent_.size() >= kMaxSent) sent_.clear();  // their announcements cost a lookup each
    sent_.insert(address);
  }
  const absl::StatusOr<bool> put = server_->Put(
      {.address = address, .store = row.store, .environment = HashBytes(row.environment)},
      WriteRecord(row, options_.sign), row.fence, /*quiet=*/false, SendDeadline());
  if (!put.ok() || !*put) {  // nothing was announced
    const MutexLock lock(mu_);
    sent_.erase(address);
  }
  if (!put.ok()) {
    ++stats_.put_errors;
    metrics::ClusterPuts({"failed"}).Increment();
    return put.status();
  }
  ++(*put ? stats_.puts : stats_.stale_puts);
  metrics::ClusterPuts({*put ? "sent" : "stale"}).Increment();
  return absl::OkStatus();
}

absl::Status Cluster::SendQuietly(const Row& row) {
  return server_
      ->Put({.address = KeyOf(row).address(), .store = row.store, .environment = {}},
            WriteRecord(row, options_.sign), row.fence, /*quiet=*/true, SendDeadline())
      .status();
}

void Cluster::CountRefilled(int64_t rows) {
  stats_.refilled += rows;
  metrics::ClusterPuts({"refilled"}).Increment(static_cast<uint64_t>(rows));
  if (rows > 0 && options_.on_change)
    options_.on_change(Cat("The shared tier had lost its keys; it got ", rows, " records back."));
}

void Cluster::SettleAll(const absl::Status& status) {
  std::vector<Settled> waiting;
  {
    const MutexLock lock(mu_);
    for (Waiting& one : queue_) {
      if (one.settled) waiting.push_back(std::exchange(one.settled, nullptr));
    }
  }
  for (const Settled& settled : waiting) settled(status);
  const MutexLock lock(mu_);
  unsettled_ -= waiting.size();
}

Cluster::Sent Cluster::SendOne() {
  std::shared_ptr<const Row> row;
  {
    const MutexLock lock(mu_);
    if (queue_.empty()) return Sent::kNothing;
    row = queue_.front().row;
  }
  // At the end one failure is enough: the next row would wait as long, and this daemon's own tiers have it.
  const absl::Status status = given_up_.ok() ? Send(*row) : given_up_;
  if (!status.ok()) SettleAll(status);  // whoever waits goes on without the server
  Settled settled;
  bool leaves = false;
  {
    const MutexLock lock(mu_);
    Waiting& front = queue_.front();  // only the sender takes rows away
    if (!status.ok() && server_->reachable()) ++front.tries;
    leaves = status.ok() || stop_ || front.tries >= kMaxTries;
    if (leaves) {
      settled = std::move(front.settled);
      queue_.pop_front();
      AddQueued(-SizeOf(*row));
      if (!status.ok()) CountDropped(1);
      if (stop_) given_up_ = status;
    }
  }
  if (settled) {
    settled(status);
    const MutexLock lock(mu_);
    --unsettled_;
  }
  changed_.notify_all();
  return leaves ? Sent::kSettled : Sent::kNotTaken;
}

void Cluster::SendLoop() {
  while (true) {
    {
      MutexLock lock(mu_);
      lock.Wait(changed_, [this]() UOPD_REQUIRES(mu_) { return stop_ || !queue_.empty(); });
    }
    const Sent sent = SendOne();
    if (sent == Sent::kNothing) return;  // and there will be nothing more
    if (sent == Sent::kSettled) continue;
    MutexLock lock(mu_);
    lock.WaitUntil(changed_, SteadyNow() + kSendPause,
                   [this]() UOPD_REQUIRES(mu_) { return stop_; });
  }
}

void Cluster::Listen(std::function<void(std::shared_ptr<const Row>)> on_row) {
  on_row_ = std::move(on_row);
  if (options_.threads) listener_ = std::thread([this] { ListenLoop(); });
}

void Cluster::StopListening() {
  {
    const MutexLock lock(mu_);
    stop_listening_ = true;
  }
  changed_.notify_all();
  if (listener_.joinable()) listener_.join();
}

void Cluster::ListenLoop() {
  std::string cursor;
  while (true) {
    const absl::StatusOr<std::vector<Announcement>> heard =
        server_->Listen(cursor, SteadyNow() + kListenWait);
    {
      MutexLock lock(mu_);
      if (!heard.ok())
        lock.WaitUntil(changed_, SteadyNow() + kListenPause,
                       [this]() UOPD_REQUIRES(mu_) { return stop_listening_; });
      if (stop_listening_) return;
    }
    if (heard.ok()) Hear(*heard);
  }
}

void Cluster::Hear(const std::vector<Announcement>& announced) {
  for (const Announcement& one : announced) {
    ++stats_.announced;
    {
      const MutexLock lock(mu_);
      if (sent_.erase(one.address) > 0) continue;
    }
    if (!Uses(one.environment)) {
      metrics::ClusterAnnouncements({"unused"}).Increment();
      continue;
    }
    const Found found = Fetch(one.address, SendDeadline());
    const bool hit = found.outcome == GetOutcome::kHit;
    metrics::ClusterAnnouncements({hit ? "taken" : "not_taken"}).Increment();
    if (!hit) continue;
    on_row_(found.row);
    ++stats_.fetched;
    // Exact between daemons of one machine. Otherwise the clocks of both machines are in it.
    metrics::ClusterArrival().Observe(
        1e-6 * static_cast<double>(std::max<int64_t>(0, options_.now() - found.row->created_us)));
  }
}

}  // namespace uopd::cache
