// SPDX-License-Identifier: MIT
// Peers whose connections were ended lately because of what they sent.
//
// A new connection costs its peer little, and allows it as much as the last one did. So for a while
// such a peer gets few new connections. The others of the same address share this with it.
// Thread-safe.
#pragma once
#include <chrono>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "core/base/mutex.h"

namespace uopd::net {

class Offenders {
 public:
  using Clock = std::chrono::steady_clock;
  // An offence counts for this long. Meanwhile this many connections a second are admitted.
  static constexpr std::chrono::seconds kTime{10};
  static constexpr double kPerSecond = 2;
  // So many peers are known. If there are more offenders at a time, some of them go free.
  static constexpr size_t kMost = 4096;

  void Add(const std::string& peer, Clock::time_point now) UOPD_EXCLUDES(mu_);
  // False: not now. True for every peer without an offence.
  bool Admits(const std::string& peer, Clock::time_point now) UOPD_EXCLUDES(mu_);
  size_t size() const UOPD_EXCLUDES(mu_);

 private:
  struct Offender {
    Clock::time_point last, filled;
    double tokens = kPerSecond;
  };

  mutable Mutex mu_;
  Clock::time_point swept_ UOPD_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, Offender> all_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::net
