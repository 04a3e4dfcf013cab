// SPDX-License-Identifier: MIT
// Replaces drafts by optimised kernels, behind the answers.
//
//   request ──► drafts (compiled quickly) ──► answer
//                  │ Add
//                  ▼
//               queue, fair between clients ── no request compiles ──► KernelLoader, Tier::kUpgrade
//                                                                         │
//                                                            ProgramUpdate::Replace
//
// Requests come first. An upgrade does not begin while requests compile, but for at most
// Waits::most, so that a stream of new graphs cannot keep a program on its drafts for ever. Nor
// does it disturb the first run of its program, which usually follows at once: the threads of a run
// wait for each other, so a compiler on one processor delays all of them. A kernel that cannot be
// optimised keeps its draft. An upgrade whose program nobody holds any more is dropped.
//
// A daemon that ends drops its upgrades. The next daemon finds the drafts in the cache, serves them
// and upgrades them.
//
// Thread-safe.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <utility>

#include "core/base/mutex.h"
#include "server/engine/base/task_pool.h"
#include "server/engine/compile/program/program_update.h"

namespace uopd::engine {

class DraftUpgrades {
 public:
  using Clock = std::chrono::steady_clock;
  struct Waits {
    std::chrono::milliseconds most{2000};
    // The first run of a program is expected to be over by then.
    std::chrono::milliseconds first_run{300};
  };

  // As many upgrades as `threads` run at the same time. `loader` outlives this object. `on_idle`
  // is called when an upgrade ends and no other waits or runs.
  DraftUpgrades(int threads, KernelLoader& loader, std::function<void()> on_idle, Waits waits);
  DraftUpgrades(int threads, KernelLoader& loader, std::function<void()> on_idle)
      : DraftUpgrades(threads, loader, std::move(on_idle), Waits()) {}
  ~DraftUpgrades() { Stop(); }

  // Marks a request that compiles.
  class Foreground {
   public:
    explicit Foreground(DraftUpgrades* maybe_upgrades);
    ~Foreground();
    Foreground(const Foreground&) = delete;
    Foreground& operator=(const Foreground&) = delete;

   private:
    DraftUpgrades* const maybe_upgrades_;
  };

  // Upgrades the drafts of the program. `caller` asked for it.
  void Add(const Caller& caller, const std::shared_ptr<ProgramUpdate>& program);
  // Ends running upgrades for good, within the time that killing a worker takes, and drops the
  // rest.
  void Stop() UOPD_EXCLUDES(mu_);
  // Upgrades that wait or run.
  int pending() const { return pending_.load(); }

 private:
  void Upgrade(ProgramUpdate& program, size_t i, Clock::time_point added);
  // What became of it: a label of the metric.
  const char* TryUpgrade(ProgramUpdate& program, size_t i, Clock::time_point added);
  void AwaitTurn(const ProgramUpdate& program, Clock::time_point added) UOPD_EXCLUDES(mu_);
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  KernelLoader& loader_;
  const std::function<void()> on_idle_;
  const Waits waits_;
  std::atomic<bool> stopped_{false};
  std::atomic<int> pending_{0};
  Mutex mu_;
  std::condition_variable turn_;
  int foreground_ UOPD_GUARDED_BY(mu_) = 0;  // requests that compile now
  TaskPool task_pool_;                       // declared last: its tasks use the members above
};

}  // namespace uopd::engine
