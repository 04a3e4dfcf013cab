// SPDX-License-Identifier: MIT
// What the kernels of the daemon use, by name: uopd_kernel_seconds_total and its two siblings.
//
// Clients decide how many kernels there are, so only some have a series of their own: at most
// kShown, those that took most of the time lately. The rest counts as "other". A kernel that gets a
// series starts it at 0, and one that loses it goes on in "other". So every series only grows, and
// the sum of all is what was used.
//
// Thread-safe. Adding to a KernelUse takes no lock. The metrics change in Publish only.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/base/mutex.h"

namespace uopd::engine {

// The measured launches of one kernel.
class KernelUse {
 public:
  void Add(double ns, double bytes) {
    ns_.fetch_add(Whole(ns), std::memory_order_relaxed);
    bytes_.fetch_add(Whole(bytes), std::memory_order_relaxed);
    launches_.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  friend class KernelUsage;
  // Estimates may be beyond all bounds.
  static uint64_t Whole(double v) { return v > 0 ? static_cast<uint64_t>(std::min(v, 1e18)) : 0; }

  std::atomic<uint64_t> ns_{0}, bytes_{0}, launches_{0};  // not published yet
  // Guarded by the lock of KernelUsage.
  double recent_ns_ = 0;  // falls by half in kHalfLife
  bool shown_ = false;
};

class KernelUsage {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kShown = 40;
  static constexpr size_t kKnown = 4096;  // names that are counted apart
  static constexpr std::chrono::minutes kHalfLife{10};
  // Every kernel that gets a series is a new one for Prometheus, so they change slowly.
  static constexpr std::chrono::seconds kBetweenChanges{10};

  // The use of the kernel of this name. If kKnown names are in use, those of all further kernels of
  // a device are one.
  std::shared_ptr<KernelUse> Get(const std::string& device, const std::string& kernel)
      UOPD_EXCLUDES(mu_);
  // Moves what was added into the metrics, and chooses the kernels that are shown.
  void Publish(Clock::time_point now = Clock::now()) UOPD_EXCLUDES(mu_);

 private:
  using Name = std::pair<std::string, std::string>;  // device, kernel
  using Uses = std::map<Name, std::shared_ptr<KernelUse>>;

  static void Move(const Name& name, KernelUse& use);
  // Forgets kernels that no program has.
  void DropUnused() UOPD_REQUIRES(mu_);
  void Choose(Clock::time_point now) UOPD_REQUIRES(mu_);

  Mutex mu_;
  Uses uses_ UOPD_GUARDED_BY(mu_);
  size_t shown_ UOPD_GUARDED_BY(mu_) = 0;
  Clock::time_point published_ UOPD_GUARDED_BY(mu_) = Clock::now();
  Clock::time_point changed_ UOPD_GUARDED_BY(mu_) = Clock::time_point::min();
};

}  // namespace uopd::engine
