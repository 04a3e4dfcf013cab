// SPDX-License-Identifier: MIT
// FaultProxy: a port of loopback that passes connections on to another port, and can do to them
// what networks do.
//
//   kPass       bytes go through
//   kDelay      each byte comes late by `delay`
//   kPartition  no byte goes through, in old and new connections, and nobody is told. When the
//               partition heals the bytes arrive, as TCP sends them again
//   kReset      connections end with a reset, new ones at once
//   kHalfOpen   the connections of the moment hang for ever, as when a machine loses its power; new
//               ones pass
//
// Thread-safe.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "core/base/mutex.h"
#include "core/base/unique_fd.h"

namespace uopd::cluster {

enum class Fault { kPass, kDelay, kPartition, kReset, kHalfOpen };

class FaultProxy {
 public:
  explicit FaultProxy(uint16_t target);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  uint16_t port() const { return port_; }  // 0: no port could be had
  void Set(Fault fault, std::chrono::milliseconds delay = {}) UOPD_EXCLUDES(mu_);

 private:
  using Clock = std::chrono::steady_clock;
  struct Chunk {
    std::string bytes;
    Clock::time_point due;
  };
  // One direction of a connection.
  struct Flow {
    std::deque<Chunk> held;
    size_t held_bytes = 0;
    bool ended = false;   // the source sends no more
    bool passed = false;  // and the sink was told
  };
  struct Pair {
    UniqueFd in, out;
    Flow forth, back;
    bool dead = false;  // hangs for ever
  };

  void Loop();
  void Accept(Fault fault);
  // False: the pair is over.
  bool Move(Pair& pair, short in_events, short out_events, std::chrono::milliseconds delay);

  const uint16_t target_;
  uint16_t port_ = 0;
  UniqueFd listener_, wake_;
  Mutex mu_;
  Fault fault_ UOPD_GUARDED_BY(mu_) = Fault::kPass;
  std::chrono::milliseconds delay_ UOPD_GUARDED_BY(mu_){0};
  uint64_t changes_ UOPD_GUARDED_BY(mu_) = 0;
  std::atomic<bool> over_{false};
  std::list<Pair> pairs_;  // of the thread
  std::thread thread_;
};

}  // namespace uopd::cluster
