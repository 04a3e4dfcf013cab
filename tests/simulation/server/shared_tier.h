// SPDX-License-Identifier: MIT
// SharedTier: the shared server with its threads, its network and those who listen to it.
//
// One command costs the server's thread a time that was measured on Redis 7 (docs/cluster.md). With
// several shards, records and leases are spread by address, as in a Redis Cluster; announcements
// and the age of the keys stay on the first. One thread.
#pragma once
#include <optional>
#include <vector>

#include "tests/simulation/key_table.h"
#include "tests/simulation/server/network.h"
#include "tests/simulation/server/server_load.h"
#include "tests/simulation/server/server_model.h"
#include "tests/simulation/stats.h"

namespace uopd::sim {

// The store and the environment of what every daemon must know.
inline constexpr char kNoticeStore[] = "quarantine";

struct CommandCosts {  // of the server's thread, in microseconds
  int64_t simple_us = 7, script_us = 11, age_us = 16, listen_us = 8, wake_us = 5, connect_us = 50;
  int64_t announcement_ns = 400;  // of each in an answer
  int64_t bytes_per_us = 4096;
};

struct TierOptions {
  int shards = 1;
  CommandCosts costs;
  NetworkOptions network;
  ServerModelOptions server;
  int64_t kernel_bytes = 20'000, tuning_bytes = 700, notice_bytes = 400;  // of a record
};

class SharedTier {
 public:
  SharedTier(const TierOptions& options, SimClock& clock, EventQueue& queue, KeyTable& keys,
             Stats& stats, uint64_t seed);

  // When a command that arrives at `at_us` is done; nullopt: the server refuses it. `shard_of`:
  // null for the first.
  std::optional<int64_t> Serve(Command command, const Digest* shard_of, int64_t bytes,
                               int64_t at_us);
  // Likewise for the question of a listener, kListen or kNotices, that gets so many announcements
  // at once.
  std::optional<int64_t> ServeListen(Command command, size_t announcements, int64_t at_us);
  int64_t Delay() { return network_.Delay(); }
  ServerModel& model() { return model_; }
  bool Has(const Digest& address) const { return model_.Has(address); }
  int64_t evicted() const { return model_.evicted(); }
  KeyTable& keys() { return keys_; }
  Stats& stats() { return stats_; }
  SimClock& clock() { return clock_; }
  const TierOptions& options() const { return options_; }

  bool up() const { return up_; }
  int64_t births() const { return births_; }
  int64_t born_us() const { return born_us_; }  // when the server got its keys
  void Stop();                                  // everybody who waits is cut off
  void Start();                                 // empty
  // Adds an announcement at `at_us`, and wakes those who wait.
  void Announce(const cache::Announcement& what, int64_t at_us);

  // Someone whose question for announcements waits at the server. Woken with `what` and the end of
  // the stream.
  struct Waiter {
    Actor* who = nullptr;
    uint32_t what = 0, on_reset = 0;
    size_t place = kNowhere;  // in waiting_
    static constexpr size_t kNowhere = ~size_t{0};
    bool waits() const { return place != kNowhere; }
  };
  void Wait(Waiter& waiter);    // `waiter` stays where it is while it waits
  void Unwait(Waiter& waiter);  // also if it does not wait
  // Notes how busy the server was; once a simulated minute.
  void EndMinute();

 private:
  int64_t Cost(Command command, int64_t bytes) const;
  std::optional<int64_t> ServeFor(int64_t cost_us, Command command, size_t shard, int64_t at_us);

  const TierOptions options_;
  SimClock& clock_;
  EventQueue& queue_;
  KeyTable& keys_;
  Stats& stats_;
  Network network_;
  ServerModel model_;
  std::vector<ServerLoad> loads_;
  std::vector<int64_t> busy_before_;
  std::vector<Waiter*> waiting_;
  bool up_ = true;
  int64_t births_ = 1, born_us_ = 0;
};

}  // namespace uopd::sim
