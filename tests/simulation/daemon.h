// SPDX-License-Identifier: MIT
// Daemon: a simulated daemon. Its store, leases, circuit breaker, queue of puts, refill and search
// gate are the real ones, without their threads; its clients, its disk and its compiler are models.
//
//   request ── kernel in the store? ── no ──► load: rounds of cache::BeginRound, compile, PutFenced
//         └── tuning in the store? ── no ──► queue of the tuner ──► the same, one search at a time
//
// What the real threads wait for are events here. A crash destroys the store; the disk stays. One
// thread.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cache/base/lease/lease_keeper.h"
#include "cache/cluster/search_gate.h"
#include "cache/lease_round.h"
#include "cache/store.h"
#include "tests/simulation/server/server_link.h"
#include "tests/simulation/sim_disk.h"

namespace uopd::sim {

struct DaemonOptions {
  double requests_per_hour = 12;        // for a kernel each
  double compile_s = 1, search_s = 20;  // means of exponential times
  double restart_s = 30;                // mean, after a crash
  int64_t lease_us = 10 * kSecond;
  double bad_share = 0.0003;  // of the kernels: one crashes a worker, of which every daemon is told
  cache::SearchGate gate;
  cache::ClusterOptions cluster;  // keys and budgets
  cache::RefillOptions refill;
  uint64_t names = 1'000'000'000;
  double zipf = 1.1;
};

// What all daemons share.
struct Surroundings {
  const DaemonOptions& options;
  const Zipf& zipf;
  SimClock& clock;
  EventQueue& queue;
  KeyTable& keys;
  SharedTier& tier;
  Stats& stats;
  // Why a kernel was tuned or compiled again: under a lease of the server, or without one as it
  // could not be reached; since a time.
  std::function<Again(const Slot&, bool shared, bool away, int64_t since_us)> why;
  bool quiet = false;  // at the end: no more requests and faults
};

class Daemon final : public Actor {
 public:
  Daemon(Surroundings& all, uint32_t id, uint32_t environment, uint64_t seed);

  void Start();
  void Crash();  // it starts again later
  void CutOff(int64_t until_us) { reach_.cut_until_us = until_us; }
  bool up() const { return store_ != nullptr; }
  uint32_t life() const { return life_; }
  // Whether rows wait to be sent.
  bool HasQueued() const;
  bool computes() const;
  bool searches() const;  // in the middle of a tuning
  void Wake(uint32_t what, uint64_t arg) override;

 private:
  enum What : uint32_t {
    kRequest,
    kSend,
    kListen,
    kListenLost,
    kHeard,
    kListenEnd,
    kNotices,
    kLook,
    kRenew,
    kComputed,
    kPoll,
    kRetry,
    kArrived,
    kRestart
  };
  struct Task {  // a load that waits or computes
    uint32_t id = 0, slot = 0;
    int rounds = 0, tries = 0;
    bool waits = true;  // for daemons of other machines
    bool computing = false;
    uint32_t turn = 0;  // of polls and computations: events of an older one are void
    int64_t began_us = 0, token = 0, computing_since_us = 0, polling_since_us = 0;
    // Whether its lease is one of the server, or one computes without since the server could not be
    // reached.
    bool shared = false, away = false;
    std::unique_ptr<cache::KeptLease> kept;
  };

  void After(int64_t us, What what, uint64_t arg = 0);
  void Request();
  // Whether the store has a value. `patient`: as for a search, for which no request waits.
  bool Lookup(uint32_t slot, bool patient = false);
  void Begin(Task& task);
  void NextRound(Task& task);
  void Compute(Task& task, int64_t token);
  void Finish(Task& task);
  void NoteFinished(const Task& task);
  void Poll(Task& task);
  void Renew(Task& task);
  void End(uint32_t id);
  void NextSearch();
  void Arrived(uint32_t slot);
  void Listen();
  void ListenAgain(int64_t after_us);  // the server did not answer
  void AskAt(cache::Deadline when);
  void Look();
  void Send();
  Task* Find(uint32_t id);
  bool tuning(const Task& task) const { return all_.keys[task.slot].tuning; }
  // An event of a task holds its number and its turn.
  static uint64_t Pack(const Task& task) { return uint64_t{task.turn} << 32 | task.id; }
  Task* Unpack(uint64_t arg);

  Surroundings& all_;
  const uint32_t id_;
  Random random_;
  SimDisk disk_;
  Reach reach_;
  uint32_t life_ = 0;
  std::unique_ptr<cache::Store> store_;
  std::optional<cache::Arrivals::Subscription> subscription_;
  std::vector<std::unique_ptr<Task>> tasks_;
  std::deque<uint32_t> searches_;  // slots; the front one is a task
  uint32_t search_task_ = 0;       // 0: none
  uint32_t next_task_ = 1;
  bool sending_ = false;
  SharedTier::Waiter waiter_;
  std::optional<uint64_t> cursor_;
  int64_t listen_until_us_ = 0;
  bool listen_end_set_ = false;
  // While it does not listen: the number of the event at which it asks for what it wants; 0: it
  // listens.
  uint32_t not_listening_ = 0;
  uint32_t asks_ = 0;
  cache::Deadline ask_at_;
  int64_t look_at_us_ = 0;
  uint32_t look_ = 0;  // the event of the next look has this number: others are void
};

}  // namespace uopd::sim
