// SPDX-License-Identifier: MIT
#include "devices/gpu/gpu_semaphore.h"

#include <utility>

namespace uopd::devices::gpu {

void GpuSemaphore::Signal(uint64_t value) {
  Semaphore::Signal(value);
  MutexLock lock(mu_);
  std::erase_if(promised_, [&](const auto& p) { return p.first <= value; });
}

void GpuSemaphore::Fail(absl::Status why) {
  Semaphore::Fail(std::move(why));
  MutexLock lock(mu_);
  promised_.clear();
}

GpuSemaphore* GpuSemaphore::Of(Semaphore& semaphore, const GpuDriver& driver) {
  auto* own = dynamic_cast<GpuSemaphore*>(&semaphore);
  return own != nullptr && &own->driver_ == &driver ? own : nullptr;
}

void GpuSemaphore::Promise(uint64_t value, Promised promised) {
  MutexLock lock(mu_);
  promised_.emplace_back(value, std::move(promised));
}

GpuSemaphore::Promised GpuSemaphore::PromiseOf(uint64_t value) const {
  MutexLock lock(mu_);
  const std::pair<uint64_t, Promised>* best = nullptr;
  for (const auto& p : promised_) {
    if (p.first >= value && (best == nullptr || p.first < best->first)) best = &p;
  }
  return best != nullptr ? best->second : Promised{};
}

}  // namespace uopd::devices::gpu
