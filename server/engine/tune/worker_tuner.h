// SPDX-License-Identifier: MIT
// The KernelTuner of the daemon: worker::TuneKernel over two pools of worker processes.
//
// One call at a time: measurements of two kernels would disturb each other.
#pragma once
#include <chrono>

#include "server/engine/tune/kernel_tuner.h"
#include "server/worker/tune_kernel.h"

namespace uopd::engine {

class WorkerTuner final : public KernelTuner {
 public:
  struct Limits {
    std::chrono::milliseconds timeout{60'000};  // of one kernel
    int max_candidates = 500;
  };

  WorkerTuner(worker::WorkerPools pools, Limits limits) : pools_(pools), limits_(limits) {}

  std::string Environment(const devices::Device& device,
                          const CompileOptions& options) const override;
  absl::StatusOr<TuningRecord> Tune(std::string_view graph, const devices::Device& device,
                                    const CompileOptions& options,
                                    const std::function<bool()>& cancelled) override;
  void Rest() override;

 private:
  worker::TuneOptions TuneOptionsOf(const devices::Device& device,
                                    const CompileOptions& options) const;

  const worker::WorkerPools pools_;
  const Limits limits_;
};

}  // namespace uopd::engine
