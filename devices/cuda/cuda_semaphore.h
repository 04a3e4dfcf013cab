// SPDX-License-Identifier: MIT
// A semaphore that knows which of its values streams of CUDA devices are about to signal, and the
// event of each. A stream that waits for such a value waits on the chip, without the host.
//
// Thread-safe. Shared by those who signal and those who wait.
#pragma once
#include <memory>
#include <vector>

#include "devices/api/semaphore.h"
#include "devices/cuda/cuda_context.h"

namespace uopd::devices::cuda {

class CudaSemaphore final : public Semaphore {
 public:
  explicit CudaSemaphore(const CudaDriver& driver) : driver_(driver) {}

  void Signal(uint64_t value) override UOPD_EXCLUDES(mu_);
  void Fail(absl::Status why) override UOPD_EXCLUDES(mu_);

  // The semaphore as one whose events streams of `driver` can wait for. Null: another kind.
  static CudaSemaphore* Of(Semaphore& semaphore, const CudaDriver& driver);
  // `event` comes before the signal of `value`.
  void Promise(uint64_t value, std::shared_ptr<CudaEvent> event) UOPD_EXCLUDES(mu_);
  // The event behind which `value` is signalled, or the semaphore fails. Null: none is known.
  std::shared_ptr<CudaEvent> EventOf(uint64_t value) const UOPD_EXCLUDES(mu_);

 private:
  struct Promised {
    uint64_t value;
    std::shared_ptr<CudaEvent> event;
  };
  const CudaDriver& driver_;
  mutable Mutex mu_;
  std::vector<Promised> promised_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::devices::cuda
