// SPDX-License-Identifier: MIT
// Replaces kernels of a program while others run it. Runs that have begun finish with the kernels
// that they took.
//
// Thread-safe: upgrades and tuning replace kernels of one program at the same time. Does not keep
// the program alive.
#pragma once
#include <atomic>
#include <memory>

#include "core/base/mutex.h"
#include "server/engine/compile/kernel/kernels.h"
#include "server/engine/compile/program/program.h"

namespace uopd::engine {

class ProgramUpdate {
 public:
  // From now on `kernels`, from which `program` was assembled, belongs to this object. `devices`
  // outlives it.
  ProgramUpdate(const std::shared_ptr<ProgramHandle>& program, std::shared_ptr<KernelSet> kernels,
                DeviceSet& devices)
      : program_(program), kernels_(std::move(kernels)), devices_(devices) {}

  // Whether anybody holds the program.
  bool wanted() const { return !program_.expired(); }
  // Whether a run of the program has been seen to end.
  bool has_run() const;
  const CompileOptions& options() const { return kernels_->options; }
  size_t size() const { return kernels_->kernels.size(); }
  KernelRequest RequestOf(size_t kernel) const { return kernels_->RequestOf(kernel); }
  std::shared_ptr<const Kernel> KernelAt(size_t i) const UOPD_EXCLUDES(mu_);

  // Puts `kernel` in the place of kernel i. A tuned kernel is replaced by tuned kernels only.
  absl::Status Replace(size_t i, std::shared_ptr<const Kernel> kernel) UOPD_EXCLUDES(mu_);

 private:
  const std::weak_ptr<ProgramHandle> program_;
  const std::shared_ptr<KernelSet> kernels_;  // ScheduledKernel::kernel: guarded by mu_
  DeviceSet& devices_;
  mutable std::atomic<bool> has_run_{false};  // a replaced program has no times of its own
  mutable Mutex mu_;
};

}  // namespace uopd::engine
