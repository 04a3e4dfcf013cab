// SPDX-License-Identifier: MIT
#include "cache/cluster/cluster.h"

#include <algorithm>
#include <random>
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
      spare_again_(options_.spare_again > 0 ? options_.spare_again
                                            : 48 + static_cast<int>(std::random_device()() % 48)),
      begun_(options_.steady()),
      server_(std::make_shared<GuardedServer>(std::move(server), options_.breaker, options_.budget,
                                              options_.now, options_.steady, options_.on_change)) {
  if (options_.threads) sender_ = std::thread([this] { SendLoop(); });
  metrics::ClusterConfigured().Set(1);
  // What alerts are about has a series from the start, so that the first one is a rise.
  for (size_t fault = 1; fault < ClusterStats::kFaults; ++fault) {
    metrics::ClusterRefused({Name(static_cast<RecordFault>(fault))});
  }
  for (const char* result : {"failed", "dropped"}) metrics::ClusterPuts({result});
}

Cluster::~Cluster() {
  StopListening();
  {
    const MutexLock lock(mu_);
    stop_ = true;
    last_puts_ = options_.steady() + kLastPuts;
  }
  changed_.notify_all();
  if (sender_.joinable()) sender_.join();
}

Cluster::Found Cluster::Get(const Key& key, bool patient) {
  const Digest environment = HashBytes(key.environment());
  const Deadline begin = options_.steady();
  const Digest address = key.address();
  {
    // Before the question, so that what is announced after its answer is taken.
    const MutexLock lock(mu_);
    if (environments_.size() < kMaxEnvironments) environments_.insert(environment);
    wanted_.Add(address, begin);
  }
  const Found found =
      Fetch(address, patient && server_->too_slow() ? SendDeadline() : begin + options_.budget);
  bool more = false;  // for the listener, if it does not listen
  {
    const MutexLock lock(mu_);
    if (found.outcome == GetOutcome::kHit)
      wanted_.Remove(address);
    else
      wants_more_ = more = spare_used_up_;
  }
  if (more) changed_.notify_all();
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
  const Deadline begin = options_.steady();
  const absl::StatusOr<std::optional<std::string>> bytes = server_->Get(address, deadline);
  NoteAnswer(begin);
  if (!bytes.ok()) return {.outcome = GetOutcome::kUnavailable};
  if (!bytes->has_value()) return {.outcome = GetOutcome::kMiss};
  return Check(**bytes, address);
}

Cluster::Found Cluster::Check(std::string_view bytes, const Digest& address) {
  RecordResult record =
      ReadRecord(bytes, address, options_.trusted, options_.max_record_bytes, options_.now());
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
  // Nobody's request waits for a search.
  UOPD_ASSIGN(const KeysAge keys,
              server_->AskKeysAge(server_->too_slow() ? SendDeadline()
                                                      : options_.steady() + options_.budget));
  if (!server_->reachable()) return absl::UnavailableError("The shared tier does not answer");
  return std::min(keys.age_us - server_->pace().RefillUs(), server_->UnchangedUs());
}

int64_t Cluster::UnsettledUs(bool settled) {
  if (settled) {
    unsettled_since_us_.store(0);
    return 0;
  }
  int64_t since = 0;
  const int64_t now = options_.now();
  if (unsettled_since_us_.compare_exchange_strong(since, now)) return 0;
  return now - since;
}

void Cluster::NoteAnswer(Deadline begin) {
  const Deadline now = options_.steady();
  if (now - begin < options_.budget) return;
  const int64_t costs = kSlowCosts * ((now - begin) / options_.budget);
  const MutexLock lock(mu_);
  UseSpare(costs, now);
}

void Cluster::UseSpare(int64_t tokens, Deadline now) {
  if (tokens <= 0) return;
  spare_.Drain(static_cast<int>(std::min<int64_t>(tokens, kSpareAtOnce)), now);
  if (now < spare_.ReadyAt(server_->pace().Weight())) spare_used_up_ = true;
}

void Cluster::Follow(const std::string& environment) {
  const Digest digest = HashBytes(environment);
  const MutexLock lock(mu_);
  if (followed_.size() < kMaxEnvironments) followed_.insert(digest);
}

Cluster::Use Cluster::UseOf(const Announcement& announcement) {
  const MutexLock lock(mu_);
  if (stop_listening_) return Use::kSpared;  // whoever ends the listener waits for it
  if (sent_.erase(announcement.address) > 0) return Use::kOwn;
  if (followed_.contains(announcement.environment)) return Use::kFetch;
  if (!environments_.contains(announcement.environment)) return Use::kUnused;
  if (wanted_.Remove(announcement.address)) return Use::kFetch;
  if (spare_.Take(options_.steady(), server_->pace().Weight())) return Use::kFetch;
  spare_used_up_ = true;
  return Use::kSpared;
}

Deadline Cluster::WhenToAsk() {
  const Deadline now = options_.steady();
  if (!spare_used_up_) return now;
  const Deadline ready = spare_.ReadyAt(std::max(spare_again_, server_->pace().Weight()));
  if (ready > now) return wanted_.NextOr(ready);
  spare_used_up_ = false;
  return now;
}

Deadline Cluster::AskAt() {
  const MutexLock lock(mu_);
  return WhenToAsk();
}

Deadline Cluster::AskWanted() {
  // If the server does not answer, listening fails, too, and this is called again.
  if (!server_->told_daemons()) server_->AskKeysAge(SendDeadline()).IgnoreError();
  std::vector<Digest> due;
  {
    const MutexLock lock(mu_);
    wants_more_ = false;
    const Deadline at = WhenToAsk();
    if (!spare_used_up_ || at > options_.steady()) return at;
    due = wanted_.TakeDue(options_.steady());
  }
  for (const Digest& address : due) {
    const bool taken = Take(Fetch(address, SendDeadline()));
    const MutexLock lock(mu_);
    if (taken) wanted_.Remove(address);
    if (stop_listening_) break;
  }
  // A question that is due already waits a little, as `now` would say that it must listen.
  const MutexLock lock(mu_);
  return spare_used_up_ ? std::max(WhenToAsk(), options_.steady() + std::chrono::milliseconds(1))
                        : options_.steady();
}

void Cluster::Put(std::shared_ptr<const Row> row, Settled settled) {
  absl::Status refused;
  if (!options_.sign.can_sign()) {
    refused = absl::FailedPreconditionError("This daemon has no key to sign records with");
  } else {
    const MutexLock lock(mu_);
    const int64_t size = SizeOf(*row);
    if (stats_.queued_bytes + size <= static_cast<int64_t>(options_.queue_bytes)) {
      AddQueued(size);
      ++accepted_;
      wanted_.Remove(KeyOf(*row).address());
      if (!settled) settled = [](const absl::Status&) {};
      queue_.push_back({std::move(row), settled});
    } else {
      CountDropped(1);
      refused = absl::ResourceExhaustedError("Too many rows wait for the shared tier");
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
  lock.WaitUntil(changed_, SteadyNow() + kFlush * options_.send_budget,
                 [this, last = accepted_]() UOPD_REQUIRES(mu_) { return settled_ >= last; });
}

absl::Status Cluster::Send(const Row& row) {
  const Announcement what{.address = KeyOf(row).address(),
                          .store = row.store,
                          .environment = HashBytes(row.environment),
                          .record = {}};
  const Digest& address = what.address;
  const std::string record = WriteRecord(row, options_.sign);
  Stream stream = Stream::kPuts;
  {
    const MutexLock lock(mu_);
    if (sent_.size() >= kMaxSent) sent_.clear();  // their announcements cost a lookup each
    sent_.insert(address);
    if (record.size() <= kMostNoticeBytes && followed_.contains(what.environment))
      stream = Stream::kNotices;
  }
  const Deadline begin = options_.steady();
  const absl::StatusOr<bool> put = server_->Put(what, record, row.fence, stream, SendDeadline());
  NoteAnswer(begin);
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
      ->Put({.address = KeyOf(row).address(), .store = row.store, .environment = {}, .record = {}},
            WriteRecord(row, options_.sign), row.fence, /*stream=*/std::nullopt, SendDeadline())
      .status();
}

void Cluster::CountRefilled(int64_t rows) {
  stats_.refilled += rows;
  metrics::ClusterPuts({"refilled"}).Increment(static_cast<uint64_t>(rows));
  if (rows > 0 && options_.on_change)
    options_.on_change(Cat("The shared tier had lost its keys; it got ", rows, " records back"));
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
  settled_ += waiting.size();
}

Cluster::Sent Cluster::SendOne() {
  std::shared_ptr<const Row> row;
  {
    const MutexLock lock(mu_);
    if (queue_.empty()) return Sent::kNothing;
    row = queue_.front().row;
    if (given_up_.ok() && options_.steady() > last_puts_)
      given_up_ = absl::DeadlineExceededError("The daemon ends");
  }
  // At the end one failure is enough: the next row would wait as long, and this daemon's own tiers
  // have it.
  const absl::Status status = given_up_.ok() ? Send(*row) : given_up_;
  not_taken_ = status.ok() ? 0 : not_taken_ + 1;
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
    ++settled_;
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
    lock.WaitUntil(changed_, SteadyNow() + SendPause(),
                   [this]() UOPD_REQUIRES(mu_) { return stop_; });
  }
}

void Cluster::Listen(std::function<void(std::shared_ptr<const Row>)> on_row,
                     std::function<void()> on_lost) {
  on_row_ = std::move(on_row);
  on_lost_ = std::move(on_lost);
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
    const Deadline at = AskWanted(), notices = HearNotices();
    if (at > SteadyNow()) {
      cursor.clear();
      MutexLock lock(mu_);
      lock.WaitUntil(changed_, std::min(at, notices),
                     [this]() UOPD_REQUIRES(mu_) { return stop_listening_ || wants_more_; });
      if (stop_listening_) return;
      continue;
    }
    const absl::StatusOr<std::vector<Announcement>> heard =
        server_->Listen(Stream::kPuts, cursor, SteadyNow() + ListenWait());
    if (!heard.ok()) on_lost_();
    const Deadline next = heard.ok() ? Hear(*heard) : SteadyNow() + kListenPause;
    MutexLock lock(mu_);
    lock.WaitUntil(changed_, next, [this]() UOPD_REQUIRES(mu_) { return stop_listening_; });
    if (stop_listening_) return;
  }
}

bool Cluster::Take(const Found& found) {
  if (found.outcome != GetOutcome::kHit) return false;
  on_row_(found.row);
  ++stats_.fetched;
  // Exact between daemons of one machine. Otherwise the clocks of both machines are in it.
  metrics::ClusterArrival().Observe(
      1e-6 * static_cast<double>(std::max<int64_t>(0, options_.now() - found.row->created_us)));
  return true;
}

std::chrono::milliseconds Cluster::Spread(std::chrono::milliseconds pause) const {
  // spare_again_ differs between daemons, from 48 to 95.
  return pause * (24 + std::clamp(spare_again_, 48, 96)) / 96;
}

std::chrono::milliseconds Cluster::Gather() const {
  const std::chrono::milliseconds gather = server_->pace().Gather(kGather);
  return gather == kGather ? gather : Spread(gather);
}

bool Cluster::HearOne(const Announcement& one) {
  ++stats_.announced;
  switch (UseOf(one)) {
    case Use::kOwn:
      return false;
    case Use::kUnused:
      metrics::ClusterAnnouncements({"unused"}).Increment();
      return true;
    case Use::kSpared:
      ++stats_.spared;
      metrics::ClusterAnnouncements({"spared"}).Increment();
      return true;
    case Use::kFetch:
      break;
  }
  const bool taken = Take(one.record.empty() ? Fetch(one.address, SendDeadline())
                                             : Check(one.record, one.address));
  metrics::ClusterAnnouncements({taken ? "taken" : "not_taken"}).Increment();
  return false;
}

Deadline Cluster::HearNotices() {
  const Deadline now = options_.steady();
  if (now < notices_at_) return notices_at_;
  if (!server_->told_daemons()) return now + kNoticesEvery;
  if (!server_->pace().WaitsAtServer()) {
    const Deadline calm = now - std::chrono::microseconds(server_->UnchangedUs());
    const Deadline begin = std::max(calm, begun_) + Spread(kNoticesCalm);
    if (now < begin) return notices_at_ = begin;
  }
  const absl::StatusOr<std::vector<Announcement>> heard =
      server_->Listen(Stream::kNotices, notices_cursor_, now);
  if (!heard.ok()) return notices_at_ = options_.steady() + kNoticesEvery;
  for (const Announcement& one : *heard) HearOne(one);
  const Deadline then = options_.steady();
  const Pace pace = server_->pace();
  const bool more = heard->size() >= SharedServer::kMostAnnouncements;
  const Deadline due =
      more ? then : then + Spread(4 * pace.Gather(std::chrono::milliseconds(kNoticesEvery) / 4));
  return notices_at_ =
             std::max(due, notices_.Reserve(then, static_cast<int>(heard->size()) * pace.Weight()));
}

Deadline Cluster::Hear(const std::vector<Announcement>& announced) {
  int64_t heard = 0;  // in vain
  for (const Announcement& one : announced) heard += HearOne(one) ? 1 : 0;
  const Deadline now = options_.steady();
  const Pace pace = server_->pace();
  const MutexLock lock(mu_);
  UseSpare(heard * (pace.Weight() - 1) / kHeardForOne, now);
  if (announced.size() >= SharedServer::kMostAnnouncements) return now;
  if (!pace.WaitsAtServer()) return now + Gather();
  if (announced.empty()) return now;
  return now < spare_.ReadyAt(kSpareQuiet) ? now + Gather() : answers_.Reserve(now, pace.Weight());
}

}  // namespace uopd::cache
