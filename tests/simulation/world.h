// SPDX-License-Identifier: MIT
// World: a cluster of simulated daemons for a time, with failures.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "tests/simulation/daemon.h"

namespace uopd::sim {

struct WorldOptions {
  uint32_t daemons = 1000;
  uint32_t environments = 10;  // device models and toolchains; each daemon has one
  int64_t duration_us = kHour;
  // After it: no requests and no faults, so that what waits is sent.
  int64_t drain_us = 3 * kMinute;
  uint64_t seed = 1;
  int64_t ramp_us = 0;             // in which the daemons start, evenly; 0: all at once
  double crashes_per_hour = 0.01;  // of each daemon
  int owner_crashes = 0;           // more of them, each in the middle of a tuning; evenly spread
  double cuts_per_hour = 0.01;     // of each daemon from the server
  double cut_s = 30;               // mean
  int server_restarts = 1;         // evenly spread; the server is empty afterwards
  int64_t server_down_us = 5 * kSecond;
  DaemonOptions daemon;
  TierOptions tier;
  std::function<void(const Stats&)> on_minute;  // at the end of each simulated minute; may be null
};

class World final : public Actor {
 public:
  explicit World(WorldOptions options);
  void Run();

  const WorldOptions& options() const { return options_; }
  const Stats& stats() const { return stats_; }
  const KeyTable& keys() const { return keys_; }
  int64_t events() const { return queue_.events(); }
  const SharedTier& tier() const { return tier_; }
  // Values that were computed, and that neither the server has nor a queue: not counting those
  // whose finder crashed.
  int64_t Lost() const;
  void Wake(uint32_t what, uint64_t arg) override;

 private:
  enum What : uint32_t {
    kCrash,
    kCrashOwner,
    kCut,
    kStopServer,
    kStartServer,
    kStartDaemon,
    kMinuteEnds
  };
  void NextFault(What what, double per_hour);
  Again Why(const Slot& slot, bool shared, bool away, int64_t since_us) const;

  const WorldOptions options_;
  SimClock clock_;
  EventQueue queue_{clock_};
  KeyTable keys_;
  Stats stats_;
  SharedTier tier_;
  const Zipf zipf_;
  Random random_;
  Surroundings all_;
  std::vector<std::unique_ptr<Daemon>> daemons_;
};

}  // namespace uopd::sim
