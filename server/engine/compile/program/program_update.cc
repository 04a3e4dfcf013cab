// SPDX-License-Identifier: MIT
#include "server/engine/compile/program/program_update.h"

#include <cstdint>
#include <utility>

namespace uopd::engine {

std::shared_ptr<const Kernel> ProgramUpdate::KernelAt(size_t i) const {
  MutexLock lock(mu_);
  return kernels_->kernels[i].kernel;
}

bool ProgramUpdate::has_run() const {
  if (has_run_.load(std::memory_order_relaxed)) return true;
  const auto program = program_.lock();
  if (program == nullptr || program->Get()->run_time.Quickest() == INT64_MAX) return false;
  has_run_.store(true, std::memory_order_relaxed);
  return true;
}

absl::Status ProgramUpdate::Replace(size_t i, std::shared_ptr<const Kernel> kernel) {
  const auto program = program_.lock();
  if (program == nullptr) return absl::OkStatus();
  MutexLock lock(mu_);
  std::shared_ptr<const Kernel>& place = kernels_->kernels[i].kernel;
  if (place->tuned && !kernel->tuned) return absl::OkStatus();
  place.swap(kernel);
  UOPD_ASSIGN(auto better, AssembleProgram(program->Get()->digest, *kernels_, devices_));
  program->Swap(std::move(better));
  return absl::OkStatus();
}

}  // namespace uopd::engine
