// SPDX-License-Identifier: MIT
#include "tests/simulation/daemon.h"

#include <algorithm>

#include "cache/base/wait/bell.h"
#include "cache/cluster/cluster_leases.h"
#include "cache/memory/memory_leases.h"
#include "core/base/text.h"

namespace uopd::sim {

namespace {
constexpr int kLifeShift = 8;  // the event's `what` holds the life in which it was made
int64_t Seconds(double s) { return static_cast<int64_t>(s * 1e6); }
}  // namespace

Daemon::Daemon(Surroundings& all, uint32_t id, uint32_t environment, uint64_t seed)
    : all_(all), id_(id), random_(seed), disk_(environment) {}

void Daemon::After(int64_t us, What what, uint64_t arg) {
  all_.queue.At(all_.clock.now_us + us, *this, what | life_ << kLifeShift, arg);
}

void Daemon::Start() {
  ++life_;
  SimClock* const clock = &all_.clock;
  const auto wall = [clock] { return clock->wall_us(); };
  const auto steady = [clock] { return clock->steady(); };
  cache::ClusterOptions options = all_.options.cluster;
  options.now = wall;
  options.steady = steady;
  options.threads = false;
  options.spare_again = 48 + static_cast<int>(random_.Below(48));
  options.breaker.seed = random_.Next() | 1;
  reach_.number = uint64_t{life_} << 32 | id_;
  auto cluster =
      std::make_unique<cache::Cluster>(std::make_unique<ServerLink>(all_.tier, reach_), options);
  auto leases = std::make_unique<cache::ClusterLeases>(cluster->server(),
                                                       std::make_unique<cache::MemoryLeases>(wall),
                                                       cluster->budget(), nullptr, wall, steady);
  std::vector<std::unique_ptr<cache::Tier>> tiers;
  tiers.push_back(std::make_unique<SimTier>(all_.keys, disk_));
  cache::RefillOptions refill = all_.options.refill;
  refill.thread = false;
  refill.slot = static_cast<int>(id_ % cache::Refill::kSlots);
  refill.seed = random_.Next() | 1;
  store_ = std::make_unique<cache::Store>(std::make_unique<cache::StatsTable>(), std::move(tiers),
                                          std::move(leases), wall, std::move(cluster), refill);
  store_->Follow(kNoticeStore);
  subscription_.emplace(store_->arrivals(), [this](const cache::Row& row) {
    if (row.store == kNoticeStore)
      all_.stats.notice.Add(std::max<int64_t>(0, all_.clock.wall_us() - row.created_us));
    if (const auto slot = all_.keys.Find(KeyOf(row).address())) After(0, kArrived, *slot);
  });
  waiter_.who = this;
  waiter_.what = kHeard | life_ << kLifeShift;
  waiter_.on_reset = kListenLost | life_ << kLifeShift;
  cursor_.reset();
  After(0, kListen);
  After(0, kNotices);
  look_at_us_ = all_.clock.now_us + static_cast<int64_t>(random_.Below(2 * kSecond));
  all_.queue.At(look_at_us_, *this, kLook | life_ << kLifeShift, ++look_);
  After(Seconds(random_.Exponential(3600 / all_.options.requests_per_hour)), kRequest);
}

void Daemon::Crash() {
  ++all_.stats.crashes;
  if (computes()) ++all_.stats.crashes_of_owners;
  if (searches()) ++all_.stats.crashes_of_searches;
  all_.tier.Unwait(waiter_);
  listen_end_set_ = sending_ = false;
  not_listening_ = 0;
  subscription_.reset();
  tasks_.clear();
  searches_.clear();
  search_task_ = 0;
  store_.reset();
  ++life_;
  After(Seconds(random_.Exponential(all_.options.restart_s)), kRestart);
}

bool Daemon::HasQueued() const { return up() && store_->maybe_cluster()->stats().queued_bytes > 0; }

bool Daemon::computes() const {
  return std::ranges::any_of(tasks_, [](const auto& task) { return task->computing; });
}

bool Daemon::searches() const {
  return std::ranges::any_of(tasks_,
                             [this](const auto& task) { return task->computing && tuning(*task); });
}

Daemon::Task* Daemon::Find(uint32_t id) {
  for (const auto& task : tasks_)
    if (task->id == id) return task.get();
  return nullptr;
}

Daemon::Task* Daemon::Unpack(uint64_t arg) {
  Task* const task = Find(static_cast<uint32_t>(arg));
  return task != nullptr && task->turn == arg >> 32 ? task : nullptr;
}

void Daemon::Wake(uint32_t what, uint64_t arg) {
  if (what >> kLifeShift != (life_ & 0xffffff)) return;
  Task* task = nullptr;
  switch (static_cast<What>(what & 0xff)) {
    case kRequest:
      if (all_.quiet) return;
      Request();
      After(Seconds(random_.Exponential(3600 / all_.options.requests_per_hour)), kRequest);
      break;
    case kSend:
      sending_ = false;
      Send();
      return;
    case kListen:
      if (arg == not_listening_) Listen();
      return;
    case kListenLost:
      ListenAgain(0);
      return;
    case kHeard: {
      if (all_.clock.now_us < reach_.cut_until_us) {  // the answer never comes
        ListenAgain(kSecond);
        return;
      }
      const cache::Deadline next = store_->maybe_cluster()->Hear(
          all_.tier.model().puts().Read(*cursor_, arg, cache::SharedServer::kMostAnnouncements));
      all_.queue.At(SimClock::Of(next), *this, kListen | life_ << kLifeShift);
      return;
    }
    case kListenEnd:
      listen_end_set_ = false;
      if (!waiter_.waits()) return;
      if (all_.clock.now_us < listen_until_us_) {
        listen_end_set_ = true;
        all_.queue.At(listen_until_us_, *this, what);
        return;
      }
      all_.tier.Unwait(waiter_);
      Listen();
      return;
    case kNotices:
      all_.queue.At(SimClock::Of(store_->maybe_cluster()->HearNotices()), *this, what);
      return;
    case kLook:
      if (arg == look_) Look();
      return;
    case kRenew:
      if ((task = Unpack(arg)) != nullptr) Renew(*task);
      break;
    case kComputed:
      if ((task = Unpack(arg)) != nullptr) Finish(*task);
      break;
    case kPoll:
      if ((task = Unpack(arg)) != nullptr) Poll(*task);
      break;
    case kRetry:
      if ((task = Unpack(arg)) != nullptr) Begin(*task);
      break;
    case kArrived:
      Arrived(static_cast<uint32_t>(arg));
      break;
    case kRestart:
      Start();
      return;
  }
  if (!sending_ && HasQueued()) {
    sending_ = true;
    After(0, kSend);
  }
  if (not_listening_ == 0) return;
  if (const cache::Deadline ask = store_->maybe_cluster()->AskAt(); ask < ask_at_) AskAt(ask);
}

void Daemon::AskAt(cache::Deadline when) {
  ask_at_ = when;
  not_listening_ = ++asks_;
  all_.queue.At(SimClock::Of(when), *this, kListen | life_ << kLifeShift, not_listening_);
}

void Daemon::Send() {
  const cache::Cluster::Sent sent = store_->maybe_cluster()->SendOne();
  if (sent == cache::Cluster::Sent::kNothing) return;
  sending_ = true;
  After(sent == cache::Cluster::Sent::kSettled ? 0
                                               : store_->maybe_cluster()->SendPause().count() * kMs,
        kSend);
}

bool Daemon::Lookup(uint32_t slot, bool patient) {
  const int64_t begin = all_.clock.now_us, asked = reach_.asked;
  const cache::GetResult found = store_->Get(all_.keys.KeyOf(slot), patient);
  if (reach_.asked != asked) all_.stats.lookup.Add(all_.clock.now_us - begin);
  if (!found.hit())
    ++all_.stats.misses;
  else
    ++(found.source == cache::Source::kCluster ? all_.stats.tier_hits : all_.stats.local_hits);
  return found.hit();
}

void Daemon::Request() {
  ++all_.stats.requests;
  const uint32_t kernel = all_.keys.Touch(disk_.environment(), all_.zipf.Draw(random_));
  const int64_t began = all_.clock.now_us;
  if (Lookup(kernel)) {
    all_.stats.request.Add(all_.clock.now_us - began);
  } else if (std::ranges::none_of(tasks_, [&](const auto& task) { return task->slot == kernel; })) {
    tasks_.push_back(
        std::make_unique<Task>(Task{.id = next_task_++, .slot = kernel, .began_us = began}));
    Begin(*tasks_.back());
  }
  if (Lookup(kernel + 1)) return;
  if (std::ranges::find(searches_, kernel + 1) != searches_.end()) return;
  searches_.push_back(kernel + 1);
  if (search_task_ == 0) NextSearch();
}

void Daemon::NextSearch() {
  if (searches_.empty() || search_task_ != 0) return;
  search_task_ = next_task_++;
  tasks_.push_back(std::make_unique<Task>(Task{.id = search_task_,
                                               .slot = searches_.front(),
                                               .waits = false,
                                               .began_us = all_.clock.now_us}));
  Begin(*tasks_.back());
}

void Daemon::Begin(Task& task) {
  task.rounds = 0;
  if (Lookup(task.slot, tuning(task))) return End(task.id);
  NextRound(task);
}

void Daemon::NextRound(Task& task) {
  if (task.rounds++ == cache::kMaxRounds) return Compute(task, 0);
  cache::LoadOptions options{.lease_ttl_us = all_.options.lease_us, .owner = Cat("d", id_)};
  if (tuning(task)) {
    options.patient = true;
    options.may_compute = [this] { return all_.options.gate.MaySearch(store_->maybe_cluster()); };
  }
  if (!task.waits) options.waits_for = [](std::string_view) { return false; };
  const absl::StatusOr<cache::Round> round =
      cache::BeginRound(*store_, all_.keys.KeyOf(task.slot), options);
  if (!round.ok() || round->step == cache::RoundStep::kElsewhere) {
    // TuningService::Run: first what nobody else does, then with waiting, again and again.
    ++task.turn;
    const int64_t pause =
        task.waits ? cache::SearchGate::PauseAfter(++task.tries).count() * kMs : 0;
    After(pause, kRetry, Pack(task));
    task.waits = true;
    return;
  }
  switch (round->step) {
    case cache::RoundStep::kFound:
      return End(task.id);
    case cache::RoundStep::kCompute:
      return Compute(task, round->token);
    case cache::RoundStep::kAwait:
      task.polling_since_us = all_.clock.now_us;
      return Poll(task);
    case cache::RoundStep::kAlone:
    case cache::RoundStep::kElsewhere:
      return Compute(task, 0);
  }
}

void Daemon::Poll(Task& task) {
  const std::optional<cache::WatchOutcome> seen = store_->LookReady(all_.keys.KeyOf(task.slot));
  ++task.turn;
  if (!seen) {
    const auto pause = cache::Bell::PauseAfter(
        std::chrono::microseconds(all_.clock.now_us - task.polling_since_us));
    return After(std::chrono::microseconds(pause).count(), kPoll, Pack(task));
  }
  if (*seen == cache::WatchOutcome::kReady && Lookup(task.slot, tuning(task))) return End(task.id);
  NextRound(task);
}

void Daemon::Compute(Task& task, int64_t token) {
  const bool search = tuning(task);
  task.computing = true;
  task.token = token;
  task.computing_since_us = all_.clock.now_us;
  ++task.turn;
  const Digest& address = all_.keys[task.slot].address;
  task.shared = token != 0 && all_.tier.model().IsHeld(address, all_.clock.wall_us()) &&
                all_.tier.model().IsNewest(address, token);
  task.away = !all_.tier.up() || all_.clock.now_us < reach_.cut_until_us;
  const double mean = search ? all_.options.search_s : all_.options.compile_s;
  After(Seconds(0.1 * mean + random_.Exponential(0.9 * mean)), kComputed, Pack(task));
  if (token == 0) return;
  task.kept = std::make_unique<cache::KeptLease>(address, token, all_.options.lease_us,
                                                 /*strict=*/search, all_.clock.steady());
  all_.queue.At(SimClock::Of(task.kept->due()), *this, kRenew | life_ << kLifeShift, Pack(task));
}

void Daemon::Renew(Task& task) {
  if (task.kept->TakeDue(all_.clock.steady()))
    task.kept->Renew(store_->leases(), [this] { return all_.clock.steady(); });
  if (!task.kept->lost()) {
    all_.queue.At(SimClock::Of(task.kept->due()), *this, kRenew | life_ << kLifeShift, Pack(task));
    return;
  }
  if (tuning(task)) ++all_.stats.searches_ended;
  task.computing = false;
  task.kept.reset();
  ++task.turn;
  NextRound(task);
}

void Daemon::Finish(Task& task) {
  NoteFinished(task);
  if (tuning(task) && random_.Unit() < all_.options.bad_share) {
    ++all_.stats.notices;
    store_->Put({kNoticeStore, Cat("n", task.slot), kNoticeStore}, "crashed", 1).IgnoreError();
  }
  const cache::Key key = all_.keys.KeyOf(task.slot);
  const int64_t cost = all_.clock.now_us - task.computing_since_us;
  // ABORTED: the new owner decides the value, and this one is lost.
  if (task.token != 0)
    store_->PutFenced(key, "value", cost, task.token).IgnoreError();
  else
    store_->Put(key, "value", cost).IgnoreError();
  End(task.id);
}

void Daemon::NoteFinished(const Task& task) {
  Slot& slot = all_.keys[task.slot];
  Stats& stats = all_.stats;
  ++(slot.tuning ? stats.tunings : stats.compiles);
  if (slot.done++ == 0) {
    slot.by = id_;
    slot.life = life_;
    slot.first_us = all_.clock.now_us;
    slot.alone = !task.shared;
    slot.away = task.away;
    return;
  }
  ++(slot.tuning ? stats.tuned_again : stats.compiled_again);
  ++(slot.tuning ? stats.why_tuned : stats.why_compiled)[static_cast<size_t>(
      all_.why(slot, task.shared, task.away, task.computing_since_us))];
}

void Daemon::End(uint32_t id) {
  const Task* const task = Find(id);
  if (!tuning(*task)) all_.stats.request.Add(all_.clock.now_us - task->began_us);
  std::erase_if(tasks_, [&](const auto& one) { return one->id == id; });
  if (id != search_task_) return;
  search_task_ = 0;
  searches_.pop_front();
  NextSearch();
}

void Daemon::Arrived(uint32_t slot) {
  const Slot& its = all_.keys[slot];
  // What was found before the server lost its keys is older: it comes with the refill.
  if (its.tuning && its.done > 0 && its.first_us >= all_.tier.born_us())
    all_.stats.arrival.Add(all_.clock.now_us - its.first_us);
  for (const auto& task : tasks_) {
    if (task->slot != slot) continue;
    if (task->computing && its.tuning) {  // a result that arrives ends the search for it
      ++all_.stats.searches_ended;
      if (task->token != 0) store_->ReleaseLease(all_.keys.KeyOf(slot), task->token).IgnoreError();
    } else if (task->computing) {
      return;
    }
    return End(task->id);  // the bell wakes who waits
  }
}

void Daemon::Listen() {
  SharedTier& tier = all_.tier;
  not_listening_ = 0;
  const cache::Deadline ask = store_->maybe_cluster()->AskWanted();
  if (ask > all_.clock.steady()) {
    cursor_.reset();
    return AskAt(ask);
  }
  if (all_.clock.now_us < reach_.cut_until_us)
    return ListenAgain(cache::Cluster::kListenWait.count() * kMs + kSecond);
  if (!tier.up()) return ListenAgain(tier.Delay() + tier.Delay());
  int64_t at = all_.clock.now_us + tier.Delay();
  if (!cursor_) {
    const std::optional<int64_t> done = tier.ServeListen(Command::kListen, 0, at);
    if (!done) return ListenAgain(2 * kSecond);
    cursor_ = tier.model().puts().end();
    at = *done + 2 * tier.Delay();
  }
  const size_t waiting =
      std::min(tier.model().puts().CountFrom(*cursor_), cache::SharedServer::kMostAnnouncements);
  const std::optional<int64_t> done = tier.ServeListen(Command::kListen, waiting, at);
  if (!done) return ListenAgain(2 * kSecond);
  const int64_t wait_us = store_->maybe_cluster()->ListenWait().count() * kMs;
  if (waiting > 0 || wait_us == 0) {
    all_.queue.At(*done + tier.Delay(), *this, waiter_.what, tier.model().puts().end());
    return;
  }
  tier.Wait(waiter_);
  listen_until_us_ = *done + wait_us;
  if (listen_end_set_) return;
  listen_end_set_ = true;
  all_.queue.At(listen_until_us_, *this, kListenEnd | life_ << kLifeShift);
}

void Daemon::ListenAgain(int64_t after_us) {
  After(after_us + cache::Cluster::kListenPause.count() * kMs, kListen);
  store_->maybe_refill()->LookSoon();
  const int64_t soon_us = all_.clock.now_us + all_.options.refill.look.count() * kMs;
  if (look_at_us_ <= soon_us) return;
  look_at_us_ = soon_us;
  all_.queue.At(look_at_us_, *this, kLook | life_ << kLifeShift, ++look_);
}

void Daemon::Look() {
  const std::chrono::milliseconds pause = store_->maybe_refill()->Look();
  look_at_us_ = all_.clock.now_us + pause.count() * kMs;
  all_.queue.At(look_at_us_, *this, kLook | life_ << kLifeShift, ++look_);
}

}  // namespace uopd::sim
