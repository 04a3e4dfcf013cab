// SPDX-License-Identifier: MIT
// What the kernels of the daemon use, by device and name: uopd_kernel_seconds_total and its
// siblings.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "server/engine/usage/shown_uses.h"

namespace uopd::engine {

// The measured launches of one kernel.
class KernelUse {
 public:
  using Name = std::pair<std::string, std::string>;  // device, kernel

  // `gain`: how many times as long the heuristic's opts would have taken; 1 without tuning.
  void Add(double ns, double bytes, double gain = 1) {
    if (gain > 1) saved_ns_.fetch_add(Whole(ns * (gain - 1)), std::memory_order_relaxed);
    ns_.fetch_add(Whole(ns), std::memory_order_relaxed);
    bytes_.fetch_add(Whole(bytes), std::memory_order_relaxed);
    launches_.fetch_add(1, std::memory_order_relaxed);
  }

  // For ShownUses.
  static Name Other(const Name& name) { return {name.first, "other"}; }
  int64_t Publish(const Name& name);
  static void Show(const Name& name);
  static void Forget(const Name& name);

 private:
  // Estimates may be beyond all bounds.
  static uint64_t Whole(double v) { return v > 0 ? static_cast<uint64_t>(std::min(v, 1e18)) : 0; }

  std::atomic<uint64_t> ns_{0}, bytes_{0}, launches_{0}, saved_ns_{0};  // not published yet
};

using KernelUsage = ShownUses<KernelUse>;

}  // namespace uopd::engine
