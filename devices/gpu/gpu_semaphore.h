// SPDX-License-Identifier: MIT
// A semaphore that knows which of its values streams of GPUs are about to signal, and the
// event of each. A stream that waits for such a value waits on the chip, without the host.
//
// Thread-safe. Shared by those who signal and those who wait.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "devices/api/semaphore.h"
#include "devices/gpu/gpu_context.h"

namespace uopd::devices::gpu {

class GpuSemaphore final : public Semaphore {
 public:
  explicit GpuSemaphore(const GpuDriver& driver) : driver_(driver) {}

  void Signal(uint64_t value) override UOPD_EXCLUDES(mu_);
  void Fail(absl::Status why) override UOPD_EXCLUDES(mu_);

  // The semaphore as one whose events streams of `driver` can wait for. Null: another kind.
  static GpuSemaphore* Of(Semaphore& semaphore, const GpuDriver& driver);
  struct Promised {
    std::shared_ptr<GpuEvent> event;
    // Between the event and the signal the host still writes memory: results of copies.
    bool writes_host = false;
  };
  // The event comes before the signal of `value`.
  void Promise(uint64_t value, Promised promised) UOPD_EXCLUDES(mu_);
  // The event behind which `value` is signalled, or the semaphore fails. Null: none is known.
  Promised PromiseOf(uint64_t value) const UOPD_EXCLUDES(mu_);

 private:
  const GpuDriver& driver_;
  mutable Mutex mu_;
  std::vector<std::pair<uint64_t, Promised>> promised_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::devices::gpu
