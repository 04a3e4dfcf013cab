// SPDX-License-Identifier: MIT
// What a simulation counts.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "tests/simulation/event_queue.h"
#include "tests/simulation/histogram.h"

namespace uopd::sim {

// Commands of the server, and what they are called in reports.
enum class Command {
  kGet,
  kHas,
  kPut,
  kAnnounce,
  kLease,
  kRenew,
  kRelease,
  kNewest,
  kHeld,
  kAge,
  kListen,
  kWake,
  kConnect,
  kHasAll,
  kNotices
};
inline constexpr std::array<const char*, 15> kCommandNames = {
    "get",  "has", "put",    "announce", "lease",   "renew",   "release", "newest",
    "held", "age", "listen", "wake",     "connect", "has-all", "notices"};

// Why a kernel was tuned or compiled again.
enum class Again {
  kNoServer,
  kNoAnswer,
  kOwnerCrashed,
  kStillQueued,
  kServerLostIt,
  kEvicted,
  kTwoAtOnce,
  kOther
};
inline constexpr std::array<const char*, 8> kAgainNames = {"a daemon could not reach the server",
                                                           "the answer for a lease came too late",
                                                           "its finder crashed before it was sent",
                                                           "it waited in its finder's queue",

                                                           "the server had lost it",
                                                           "the server had evicted it",
                                                           "two had the lease at once",
                                                           "other"};

struct Stats {
  std::array<int64_t, kCommandNames.size()> commands{};
  std::vector<int64_t> by_minute;                                // commands
  std::vector<std::array<int64_t, kCommandNames.size()>> kinds;  // the same by kind
  std::vector<int64_t> busy_us;  // of the busiest thread of the server, by minute
  int64_t bytes = 0;             // of records, both ways
  int64_t timeouts = 0, refused = 0;
  Histogram answer;   // of one command of a request path, with the network
  Histogram lookup;   // of lookups that asked the server
  Histogram request;  // until a kernel is there: found, compiled or awaited
  Histogram arrival;  // from the end of a tuning until its winner is on another daemon
  int64_t requests = 0, local_hits = 0, tier_hits = 0, misses = 0;
  int64_t compiles = 0, compiled_again = 0;
  int64_t tunings = 0, tuned_again = 0, searches_ended = 0;
  std::array<int64_t, kAgainNames.size()> why_tuned{}, why_compiled{};
  int64_t notices = 0;  // kernels with a candidate that crashes: each daemon must know of it
  Histogram notice;     // from its end until another daemon knows of it
  int64_t crashes = 0, crashes_of_owners = 0, crashes_of_searches = 0, cuts = 0;

  // Counts a command at its time.
  void Count(Command command, int64_t at_us) {
    ++commands[static_cast<size_t>(command)];
    const auto minute = static_cast<size_t>(at_us / kMinute);
    if (by_minute.size() <= minute) by_minute.resize(minute + 1), kinds.resize(minute + 1);
    ++by_minute[minute];
    ++kinds[minute][static_cast<size_t>(command)];
  }
  int64_t all_commands() const {
    int64_t sum = 0;
    for (const int64_t n : commands) sum += n;
    return sum;
  }
};

}  // namespace uopd::sim
