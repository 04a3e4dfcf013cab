// SPDX-License-Identifier: MIT
#include "devices/cuda/cuda_semaphore.h"

#include <utility>

namespace uopd::devices::cuda {

void CudaSemaphore::Signal(uint64_t value) {
  Semaphore::Signal(value);
  MutexLock lock(mu_);
  std::erase_if(promised_, [&](const auto& p) { return p.first <= value; });
}

void CudaSemaphore::Fail(absl::Status why) {
  Semaphore::Fail(std::move(why));
  MutexLock lock(mu_);
  promised_.clear();
}

CudaSemaphore* CudaSemaphore::Of(Semaphore& semaphore, const CudaDriver& driver) {
  auto* own = dynamic_cast<CudaSemaphore*>(&semaphore);
  return own != nullptr && &own->driver_ == &driver ? own : nullptr;
}

void CudaSemaphore::Promise(uint64_t value, Promised promised) {
  MutexLock lock(mu_);
  promised_.emplace_back(value, std::move(promised));
}

CudaSemaphore::Promised CudaSemaphore::PromiseOf(uint64_t value) const {
  MutexLock lock(mu_);
  const std::pair<uint64_t, Promised>* best = nullptr;
  for (const auto& p : promised_) {
    if (p.first >= value && (best == nullptr || p.first < best->first)) best = &p;
  }
  return best != nullptr ? best->second : Promised{};
}

}  // namespace uopd::devices::cuda
