// SPDX-License-Identifier: MIT
#include "tests/simulation/server/shared_tier.h"

#include <algorithm>

namespace uopd::sim {

SharedTier::SharedTier(const TierOptions& options, SimClock& clock, EventQueue& queue,
                       KeyTable& keys, Stats& stats, uint64_t seed)
    : options_(options),
      clock_(clock),
      queue_(queue),
      keys_(keys),
      stats_(stats),
      network_(options.network, seed),
      model_(options.server, clock.wall_us() - kHour, seed + 1),  // it runs since an hour
      loads_(static_cast<size_t>(options.shards)),
      busy_before_(loads_.size()) {}

int64_t SharedTier::Cost(Command command, int64_t bytes) const {
  const CommandCosts& costs = options_.costs;
  switch (command) {
    case Command::kPut:
    case Command::kLease:
    case Command::kRenew:
    case Command::kRelease:
      return costs.script_us + bytes / costs.bytes_per_us;
    case Command::kAge:
      return costs.age_us;
    case Command::kListen:
    case Command::kNotices:
      return costs.listen_us;
    case Command::kWake:
      return costs.wake_us;
    case Command::kConnect:
      return costs.connect_us;
    case Command::kHasAll:  // of so many keys
      return costs.simple_us + bytes / 2;
    default:
      return costs.simple_us + bytes / costs.bytes_per_us;
  }
}

std::optional<int64_t> SharedTier::Serve(Command command, const Digest* shard_of, int64_t bytes,
                                         int64_t at_us) {
  const size_t shard = shard_of == nullptr ? 0 : shard_of->bytes[8] % loads_.size();
  stats_.bytes += bytes;
  return ServeFor(Cost(command, bytes), command, shard, at_us);
}

std::optional<int64_t> SharedTier::ServeListen(Command command, size_t announcements,
                                               int64_t at_us) {
  const CommandCosts& costs = options_.costs;
  const auto n = static_cast<int64_t>(announcements);
  int64_t cost_us = costs.listen_us + n * costs.announcement_ns / 1000;
  if (command == Command::kNotices) cost_us += n * options_.notice_bytes / costs.bytes_per_us;
  return ServeFor(cost_us, command, 0, at_us);
}

std::optional<int64_t> SharedTier::ServeFor(int64_t cost_us, Command command, size_t shard,
                                            int64_t at_us) {
  stats_.Count(command, at_us);
  ServerLoad& load = loads_[shard];
  load.Advance(queue_.now_us());
  return load.Serve(at_us, cost_us);
}

void SharedTier::Announce(const cache::Announcement& what, int64_t at_us) {
  model_.puts().Add(what);
  std::vector<Waiter*> woken;
  woken.swap(waiting_);
  for (Waiter* waiter : woken) {
    waiter->place = Waiter::kNowhere;
    const std::optional<int64_t> done = Serve(Command::kWake, nullptr, 0, at_us);
    if (done)
      queue_.At(*done + Delay(), *waiter->who, waiter->what, model_.puts().end());
    else
      queue_.At(at_us + Delay(), *waiter->who, waiter->on_reset);
  }
}

void SharedTier::Wait(Waiter& waiter) {
  waiter.place = waiting_.size();
  waiting_.push_back(&waiter);
}

void SharedTier::Unwait(Waiter& waiter) {
  if (!waiter.waits()) return;
  waiting_[waiter.place] = waiting_.back();
  waiting_[waiter.place]->place = waiter.place;
  waiting_.pop_back();
  waiter.place = Waiter::kNowhere;
}

void SharedTier::Stop() {
  up_ = false;
  for (ServerLoad& load : loads_) {
    load.Advance(queue_.now_us());
    load.Clear();
  }
  for (Waiter* waiter : waiting_) {
    waiter->place = Waiter::kNowhere;
    queue_.At(clock_.now_us + Delay(), *waiter->who, waiter->on_reset);
  }
  waiting_.clear();
}

void SharedTier::Start() {
  up_ = true;
  ++births_;
  born_us_ = clock_.now_us;
  model_.Empty(clock_.wall_us());
}

void SharedTier::EndMinute() {
  int64_t most = 0;
  for (size_t i = 0; i < loads_.size(); ++i) {
    most = std::max(most, loads_[i].busy_us() - busy_before_[i]);
    busy_before_[i] = loads_[i].busy_us();
  }
  stats_.busy_us.push_back(most);
}

}  // namespace uopd::sim
