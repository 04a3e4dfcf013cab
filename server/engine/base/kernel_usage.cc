// SPDX-License-Identifier: MIT
#include "server/engine/base/kernel_usage.h"

#include <cmath>

#include "core/base/telemetry/metrics.h"

namespace uopd::engine {
namespace {

constexpr char kOtherKernels[] = "other";
// A kernel takes the place of another one if it used this many times as much.
constexpr double kClearlyMore = 1.5;

}  // namespace

std::shared_ptr<KernelUse> KernelUsage::Get(const std::string& device, const std::string& kernel) {
  const MutexLock lock(mu_);
  const Name name(device, kernel);
  if (const auto it = uses_.find(name); it != uses_.end()) return it->second;
  if (uses_.size() >= kKnown) DropUnused();
  auto& use = uses_[uses_.size() < kKnown ? name : Name(device, kOtherKernels)];
  if (use == nullptr) use = std::make_shared<KernelUse>();
  return use;
}

void KernelUsage::Move(const Name& name, KernelUse& use) {
  const auto& [device, kernel] = name;
  const uint64_t launches = use.launches_.exchange(0, std::memory_order_relaxed);
  if (launches == 0) return;
  const uint64_t ns = use.ns_.exchange(0, std::memory_order_relaxed);
  const std::string_view shown = use.shown_ ? std::string_view(kernel) : kOtherKernels;
  use.recent_ns_ += static_cast<double>(ns);
  metrics::KernelTime({device, shown}).AddNs(ns);
  metrics::KernelLaunches({device, shown}).Increment(launches);
  metrics::KernelBytes({device, shown})
      .Increment(use.bytes_.exchange(0, std::memory_order_relaxed));
}

void KernelUsage::DropUnused() {
  for (auto it = uses_.begin(); it != uses_.end();) {
    // Only this map has the use, so nobody adds to it.
    const bool unused = it->second.use_count() == 1 && !it->second->shown_;
    if (unused) Move(it->first, *it->second);
    it = unused ? uses_.erase(it) : std::next(it);
  }
}

void KernelUsage::Publish(Clock::time_point now) {
  const MutexLock lock(mu_);
  const double halves = std::chrono::duration<double>(now - published_) / kHalfLife;
  const double left = std::exp2(-std::max(halves, 0.0));
  published_ = now;
  for (auto& [name, use] : uses_) {
    use->recent_ns_ *= left;
    Move(name, *use);
  }
  Choose(now);
}

void KernelUsage::Choose(Clock::time_point now) {
  while (true) {
    Uses::value_type* most = nullptr;   // of those not shown
    Uses::value_type* least = nullptr;  // of those shown
    for (auto& one : uses_) {
      const KernelUse& use = *one.second;
      if (use.shown_) {
        if (least == nullptr || use.recent_ns_ < least->second->recent_ns_) least = &one;
      } else if (one.first.second != kOtherKernels && use.recent_ns_ > 0) {
        if (most == nullptr || use.recent_ns_ > most->second->recent_ns_) most = &one;
      }
    }
    if (most == nullptr) return;
    if (shown_ < kShown) {
      most->second->shown_ = true;
      ++shown_;
      continue;
    }
    const bool soon = changed_ != Clock::time_point::min() && now < changed_ + kBetweenChanges;
    const double needed = kClearlyMore * least->second->recent_ns_;
    if (soon || most->second->recent_ns_ <= needed) return;
    changed_ = now;
    const auto& [device, kernel] = least->first;
    for (const char* family :
         {"kernel_seconds_total", "kernel_launches_total", "kernel_bytes_total"}) {
      MetricRegistry::Global().Forget(family, {device, kernel});
    }
    least->second->shown_ = false;
    most->second->shown_ = true;
  }
}

}  // namespace uopd::engine
