// SPDX-License-Identifier: MIT
#include "server/engine/tune/worker_tuner.h"

#include <algorithm>

#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "core/ir/io/wire.h"
#include "server/engine/base/code_key.h"

namespace uopd::engine {

worker::TuneOptions WorkerTuner::TuneOptionsOf(const devices::Device& device,
                                               const CompileOptions& options) const {
  worker::TuneOptions out;
  out.beam.width = options.beam;
  out.beam.max_candidates = limits_.max_candidates;
  out.beam.fast_math = options.fast_math;
  out.device = device.info().name;
  out.toolchain = device.target().toolchain;
  return out;
}

std::string WorkerTuner::Environment(const devices::Device& device,
                                     const CompileOptions& options) const {
  return Cat("record=", kTuningRecordVersion, " ", TuneOptionsOf(device, options).Key(),
             " timeout_ms=", limits_.timeout.count(), " ", CodeEnvironment(device.target()));
}

worker::TuneOptions WorkerTuner::RunOptionsOf(const devices::Device& device,
                                              const CompileOptions& options,
                                              const std::function<bool()>& cancelled) const {
  worker::TuneOptions out = TuneOptionsOf(device, options);
  out.beam.cancelled = cancelled;
  out.beam.deadline = std::chrono::steady_clock::now() + limits_.timeout;
  return out;
}

absl::StatusOr<TuningRecord> WorkerTuner::Tune(std::string_view graph,
                                               const devices::Device& device,
                                               const CompileOptions& options,
                                               const std::function<bool()>& cancelled) {
  ir::UOpContext ctx;
  UOPD_ASSIGN(const ir::UOp sink, ir::Decode(ctx, graph, ir::Level::kKernel));
  worker::TuneOptions tune = RunOptionsOf(device, options, cancelled);
  tune.beam.progress = [](const search::Trial& trial) {
    metrics::TuneCandidates({trial.outcome == search::Trial::kMeasured ? "measured" : "failed"})
        .Increment();
  };
  UOPD_ASSIGN(worker::TunedKernel tuned,
              worker::TuneKernel(ctx, sink, device.target(), tune, pools_(device)));
  metrics::TuneRejected().Increment(tuned.rejected.size());
  TuningRecord out;
  out.opts = std::move(tuned.opts);
  out.seconds = tuned.seconds;
  out.heuristic_seconds = tuned.heuristic_seconds;
  const auto& trials = tuned.search.trials;
  out.measured = std::count_if(trials.begin(), trials.end(), [](const search::Trial& trial) {
    return trial.outcome == search::Trial::kMeasured;
  });
  out.failed = static_cast<int64_t>(trials.size()) - out.measured;
  return out;
}

absl::StatusOr<TuningRecord> WorkerTuner::Prove(std::string_view graph,
                                                const devices::Device& device,
                                                const CompileOptions& options, const Opts& opts,
                                                const std::function<bool()>& cancelled) {
  ir::UOpContext ctx;
  UOPD_ASSIGN(const ir::UOp sink, ir::Decode(ctx, graph, ir::Level::kKernel));
  const worker::TuneOptions tune = RunOptionsOf(device, options, cancelled);
  UOPD_ASSIGN(const worker::TunedKernel proven,
              worker::ProveKernel(ctx, sink, device.target(), tune, opts, pools_(device)));
  return TuningRecord{.opts = proven.opts,
                      .seconds = proven.seconds,
                      .heuristic_seconds = proven.heuristic_seconds,
                      .measured = 1};
}

void WorkerTuner::Rest(const devices::Device& device) {
  const worker::WorkerPools pools = pools_(device);
  pools.compile.EndIdle();
  pools.measure.EndIdle();
}

}  // namespace uopd::engine
