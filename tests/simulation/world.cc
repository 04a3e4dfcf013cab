// SPDX-License-Identifier: MIT
#include "tests/simulation/world.h"

namespace uopd::sim {

World::World(WorldOptions options)
    : options_(std::move(options)),
      keys_(options_.environments),
      tier_(options_.tier, clock_, queue_, keys_, stats_, options_.seed + 1),
      zipf_(options_.daemon.names, options_.daemon.zipf),
      random_(options_.seed),
      all_{.options = options_.daemon,
           .zipf = zipf_,
           .clock = clock_,
           .queue = queue_,
           .keys = keys_,
           .tier = tier_,
           .stats = stats_,
           .why = [this](const Slot& slot, bool shared, bool away, int64_t since_us) {
             return Why(slot, shared, away, since_us);
           }} {
  for (uint32_t id = 0; id < options_.daemons; ++id)
    daemons_.push_back(
        std::make_unique<Daemon>(all_, id, id % options_.environments, random_.Next()));
}

void World::NextFault(What what, double per_hour) {
  if (per_hour <= 0) return;
  const double mean_s = 3600 / (per_hour * options_.daemons);
  queue_.At(clock_.now_us + static_cast<int64_t>(random_.Exponential(mean_s) * 1e6), *this, what);
}

void World::Run() {
  for (uint32_t i = 0; i < options_.daemons; ++i)
    queue_.At(options_.ramp_us * i / options_.daemons, *this, kStartDaemon, i);
  NextFault(kCrash, options_.crashes_per_hour);
  NextFault(kCut, options_.cuts_per_hour);
  for (int i = 1; i <= options_.server_restarts; ++i)
    queue_.At(options_.duration_us * i / (options_.server_restarts + 1), *this, kStopServer);
  for (int i = 1; i <= options_.owner_crashes; ++i)
    queue_.At(options_.duration_us * i / (options_.owner_crashes + 1), *this, kCrashOwner);
  queue_.At(kMinute, *this, kMinuteEnds);
  while (queue_.Step(options_.duration_us)) {
  }
  all_.quiet = true;
  while (queue_.Step(options_.duration_us + options_.drain_us)) {
  }
}

void World::Wake(uint32_t what, uint64_t arg) {
  switch (static_cast<What>(what)) {
    case kMinuteEnds:
      tier_.EndMinute();
      if (options_.on_minute) options_.on_minute(stats_);
      queue_.At(clock_.now_us + kMinute, *this, kMinuteEnds);
      return;
    case kStartDaemon:
      daemons_[arg]->Start();
      return;
    case kStartServer:
      tier_.Start();
      return;
    default:
      break;
  }
  if (all_.quiet) return;
  Daemon& daemon = *daemons_[random_.Below(daemons_.size())];
  if (what == kStopServer) {
    tier_.Stop();
    queue_.At(clock_.now_us + options_.server_down_us, *this, kStartServer);
  } else if (what == kCrashOwner) {
    // The first one from a random place on; nobody, if nobody searches.
    const size_t from = random_.Below(daemons_.size());
    for (size_t i = 0; i < daemons_.size(); ++i) {
      Daemon& one = *daemons_[(from + i) % daemons_.size()];
      if (!one.up() || !one.searches()) continue;
      one.Crash();
      break;
    }
  } else if (what == kCrash) {
    if (daemon.up()) daemon.Crash();
    NextFault(kCrash, options_.crashes_per_hour);
  } else {
    ++stats_.cuts;
    daemon.CutOff(clock_.now_us + static_cast<int64_t>(random_.Exponential(options_.cut_s) * 1e6));
    NextFault(kCut, options_.cuts_per_hour);
  }
}

Again World::Why(const Slot& slot, bool shared, bool away, int64_t since_us) const {
  if (!shared) return away ? Again::kNoServer : Again::kNoAnswer;
  if (slot.alone) return slot.away ? Again::kNoServer : Again::kNoAnswer;
  if (since_us < slot.first_us) return Again::kTwoAtOnce;
  if (!slot.reached)
    return daemons_[slot.by]->life() != slot.life ? Again::kOwnerCrashed : Again::kStillQueued;
  if (tier_.births() > 1) return Again::kServerLostIt;
  if (tier_.evicted() > 0) return Again::kEvicted;
  return Again::kOther;
}

int64_t World::Lost() const {
  int64_t lost = 0;
  for (uint32_t i = 0; i < keys_.size(); ++i) {
    const Slot& slot = keys_[i];
    if (slot.done == 0 || tier_.Has(slot.address)) continue;
    const Daemon& finder = *daemons_[slot.by];
    if (finder.life() == slot.life && !finder.HasQueued()) ++lost;
  }
  return lost;
}

}  // namespace uopd::sim
