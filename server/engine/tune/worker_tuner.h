// SPDX-License-Identifier: MIT
// The KernelTuner of the daemon. It calls worker::TuneKernel with the pools of worker processes for
// tuning. What it measures is kept every few seconds, so a search whose daemon ends goes on in the
// next one.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "core/base/work_limits.h"
#include "server/engine/tune/kernel_tuner.h"
#include "server/engine/tune/search_memory.h"
#include "server/worker/tune/tune_kernel.h"

namespace uopd::engine {

class WorkerTuner final : public KernelTuner {
 public:
  struct Limits {
    std::chrono::milliseconds timeout{60'000};    // of one kernel
    std::chrono::milliseconds run_limit{10'000};  // of one candidate, with all its runs
    int max_candidates = 500;
  };

  // Returns the pools for a device. The pools outlive the tuner. Thread-safe.
  using Pools = std::function<worker::WorkerPools(const devices::Device&)>;

  // `maybe_memory`: what searches leave for later ones; outlives the tuner. Null: each begins from
  // nothing. `unready`: why there are no workers now.
  WorkerTuner(
      Pools pools, Limits limits, const SearchMemory* maybe_memory = nullptr,
      std::function<std::string()> unready = [] { return std::string(); })
      : pools_(std::move(pools)),
        limits_(limits),
        memory_(maybe_memory),
        unready_(std::move(unready)) {}

  std::string Environment(const devices::Device& device,
                          const CompileOptions& options) const override;
  absl::StatusOr<TuningRecord> Tune(std::string_view graph, const devices::Device& device,
                                    const CompileOptions& options,
                                    const SearchControl& control) override;
  absl::StatusOr<TuningRecord> Prove(std::string_view graph, const devices::Device& device,
                                     const CompileOptions& options, const Opts& opts,
                                     const WorkLimits& limits) override;
  std::string Unready() const override { return unready_(); }
  void Rest(const devices::Device& device) override;

 private:
  worker::TuneOptions TuneOptionsOf(const devices::Device& device,
                                    const CompileOptions& options) const;
  // The options of a run that begins now. It ends by `limits`, or when the tuner's time is over.
  worker::TuneOptions RunOptionsOf(const devices::Device& device, const CompileOptions& options,
                                   const WorkLimits& limits) const;

  const Pools pools_;
  const Limits limits_;
  const SearchMemory* const memory_;
  const std::function<std::string()> unready_;
};

}  // namespace uopd::engine
