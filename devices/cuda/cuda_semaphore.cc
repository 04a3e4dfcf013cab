// SPDX-License-Identifier: MIT
#include "devices/cuda/cuda_semaphore.h"

#include <utility>

namespace uopd::devices::cuda {

void CudaSemaphore::Signal(uint64_t value) {
  Semaphore::Signal(value);
  MutexLock lock(mu_);
  std::erase_if(promised_, [&](const Promised& p) { return p.value <= value; });
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

void CudaSemaphore::Promise(uint64_t value, std::shared_ptr<CudaEvent> event) {
  MutexLock lock(mu_);
  promised_.push_back({value, std::move(event)});
}

std::shared_ptr<CudaEvent> CudaSemaphore::EventOf(uint64_t value) const {
  MutexLock lock(mu_);
  const Promised* best = nullptr;
  for (const Promised& p : promised_) {
    if (p.value >= value && (best == nullptr || p.value < best->value)) best = &p;
  }
  return best != nullptr ? best->event : nullptr;
}

}  // namespace uopd::devices::cuda
