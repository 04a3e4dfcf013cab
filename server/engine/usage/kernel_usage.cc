// SPDX-License-Identifier: MIT
#include "server/engine/usage/kernel_usage.h"

#include "core/base/telemetry/metrics.h"

namespace uopd::engine {

int64_t KernelUse::Publish(const Name& name) {
  const uint64_t launches = launches_.exchange(0, std::memory_order_relaxed);
  if (launches == 0) return 0;
  const auto& [device, kernel] = name;
  const uint64_t ns = ns_.exchange(0, std::memory_order_relaxed);
  metrics::KernelTime({device, kernel}).AddNs(ns);
  metrics::KernelLaunches({device, kernel}).Increment(launches);
  metrics::KernelBytes({device, kernel}).Increment(bytes_.exchange(0, std::memory_order_relaxed));
  const uint64_t saved = saved_ns_.exchange(0, std::memory_order_relaxed);
  metrics::KernelSaved({device, kernel})
      .AddNs(saved);  // also 0: who asks for the part that was saved finds a series
  metrics::SavedTime({"tuning"}).AddNs(saved);
  return static_cast<int64_t>(ns);
}

void KernelUse::Show(const Name& name) {
  const auto& [device, kernel] = name;
  metrics::KernelTime({device, kernel});
  metrics::KernelLaunches({device, kernel});
  metrics::KernelBytes({device, kernel});
  metrics::KernelSaved({device, kernel});
}

void KernelUse::Forget(const Name& name) {
  const auto& [device, kernel] = name;
  for (const char* family : {"kernel_seconds_total", "kernel_launches_total", "kernel_bytes_total",
                             "kernel_saved_seconds_total"})
    MetricRegistry::Global().Forget(family, {device, kernel});
}

}  // namespace uopd::engine
