// SPDX-License-Identifier: MIT
// Flights: the core of "one computation for a key, however many ask for it": who of the callers
// computes, how many still want the answer, and who gets it.
//
//   Join --first--> computes for all, for as long as anybody wants the answer (wanted)
//        --later--> waits; a caller that does not want the answer any more leaves (Leave)
//   Land: the flight is over, and the key is free. All who joined, and did not withdraw, get the
//   answer.
//
// How callers wait is not decided here: SingleFlight (single_flight.h) is for callers that wait
// with their threads, engine::ProgramFlights for callers that wait without.
//
// Thread-safe.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/digest.h"
#include "core/base/mutex.h"

namespace uopd::cache {

// A Caller can be copied and compared. A Shared is what the work shows to those who look at it; it
// is thread-safe.
template <class Caller, class Shared = std::monostate>
class Flights {
 public:
  class Flight {
   public:
    // Callers that have not left, with the one that computes.
    int wanted() const { return wanted_.load(); }
    Shared& shared() { return shared_; }

   private:
    friend class Flights;
    std::atomic<int> wanted_{0};
    std::vector<Caller> callers_;  // guarded by the lock of Flights; some may have left
    [[no_unique_address]] Shared shared_;
  };
  struct Joined {
    std::shared_ptr<Flight> flight;
    bool first = false;  // the caller computes, and calls Land
  };

  Joined Join(const Digest& key, Caller caller) UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    auto [it, first] = flights_.try_emplace(key);
    if (first) it->second = std::make_shared<Flight>();
    it->second->callers_.push_back(std::move(caller));
    it->second->wanted_.fetch_add(1);
    return {it->second, first};
  }
  // Called once at most by each caller. The caller still gets the answer.
  static void Leave(Flight& flight) { flight.wanted_.fetch_sub(1); }
  // Leave, for a caller that wants no answer: the flight forgets the caller.
  void Withdraw(Flight& flight, const Caller& caller) UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    flight.wanted_.fetch_sub(1);
    std::erase(flight.callers_, caller);
  }

  // Returns all who joined, in order. With `gave_up`, the work ended because nobody wanted the
  // answer: then nullopt means that a caller has come since, and that the flight goes on.
  std::optional<std::vector<Caller>> Land(const Digest& key, Flight& flight, bool gave_up = false)
      UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (gave_up && flight.wanted() > 0) return std::nullopt;
    flights_.erase(key);
    return std::move(flight.callers_);
  }

  int wanted(const Digest& key) const UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    const auto it = flights_.find(key);
    return it == flights_.end() ? 0 : it->second->wanted();
  }
  // Calls see(callers, shared) for each flight, with the lock.
  template <class See>
  void ForEach(See&& see) const UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    for (const auto& [key, flight] : flights_)
      see(std::as_const(flight->callers_), std::as_const(flight->shared_));
  }

 private:
  mutable Mutex mu_;
  absl::flat_hash_map<Digest, std::shared_ptr<Flight>> flights_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::cache
