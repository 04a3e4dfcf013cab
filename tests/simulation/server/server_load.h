// SPDX-License-Identifier: MIT
// ServerLoad: one thread of a server that serves commands, and how long each waits for those before
// it.
//
// Time is cut into steps of 100 us, and a step has room for 100 us of work. A command takes the
// first room at or after its arrival. Unlike a queue with one end, this gives the right wait also
// when commands are told out of the order of their arrival, by up to the time that a chain of calls
// takes (server_link.h). Commands for which there is no room within kHorizon are refused, as those
// of clients whose buffers are full.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace uopd::sim {

class ServerLoad {
 public:
  static constexpr int64_t kStepUs = 100, kSteps = int64_t{1} << 20,
                           kHorizonUs = kStepUs * kSteps / 2;

  ServerLoad() : used_(kSteps) {}

  // Nothing arrives before `now_us` any more.
  void Advance(int64_t now_us);
  // When a command that arrives at `at_us` and takes `cost_us` is done; nullopt: refused.
  std::optional<int64_t> Serve(int64_t at_us, int64_t cost_us);
  // A server that was restarted has nothing to do.
  void Clear();
  int64_t busy_us() const { return busy_us_; }  // in all

 private:
  uint8_t& Used(int64_t step) { return used_[static_cast<size_t>(step % kSteps)]; }
  std::vector<uint8_t> used_;  // by step, as a ring that begins at begin_
  int64_t begin_ = 0;
  int64_t full_ = 0;  // every step before is past or full
  int64_t busy_us_ = 0;
};

}  // namespace uopd::sim
