// SPDX-License-Identifier: MIT
#include "server/engine/tune/worker_tuner.h"

#include <algorithm>

#include "core/base/machine/process_limits.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "core/ir/io/wire.h"
#include "server/engine/base/code_key.h"

namespace uopd::engine {
namespace {

constexpr std::chrono::seconds kKeepEvery{2};

const char* OutcomeOf(const search::Trial& trial) {
  if (trial.outcome == search::Trial::kFailed) return "failed";
  return trial.remembered ? "remembered" : "measured";
}

// What one search knows from before, and leaves. The book is kept while the search runs, and when
// it ends in any way.
class Recall {
 public:
  Recall(const SearchMemory* memory, std::string_view graph, const Target& target, bool afresh)
      : memory_(memory), graph_(graph), target_(target) {
    if (memory_ == nullptr) return;
    if (!afresh) book = memory_->Book(graph_, target_);
    model = memory_->Model(target_);
    kept_ = book.size();
  }
  ~Recall() { Keep(); }
  Recall(const Recall&) = delete;
  Recall& operator=(const Recall&) = delete;

  void KeepSometimes() {
    if (std::chrono::steady_clock::now() - at_ >= kKeepEvery) Keep();
  }
  void KeepModel() {
    if (memory_ != nullptr) memory_->Keep(target_, model);
  }

  search::TrialBook book;
  search::CostModel model;

 private:
  void Keep() {
    at_ = std::chrono::steady_clock::now();
    if (memory_ == nullptr || book.size() == kept_) return;
    memory_->Keep(graph_, target_, book);
    kept_ = book.size();
  }

  const SearchMemory* const memory_;
  const std::string_view graph_;
  const Target& target_;
  size_t kept_ = 0;  // programs in the book that is in the store
  std::chrono::steady_clock::time_point at_ = std::chrono::steady_clock::now();
};

}  // namespace

worker::TuneOptions WorkerTuner::TuneOptionsOf(const devices::Device& device,
                                               const CompileOptions& options) const {
  worker::TuneOptions out;
  out.beam.width = options.beam;
  out.beam.max_candidates = limits_.max_candidates;
  out.beam.fast_math = options.fast_math;
  out.run_limit = limits_.run_limit;
  out.device = device.info().name;
  out.toolchain = device.target().toolchain;
  // A kernel on the host takes all processors of its device, unless it was given fewer than there
  // are.
  out.overlap = device.info().processor != devices::DeviceInfo().processor ||
                (!device.target().blocks && device.target().threads < UsableProcessors());
  return out;
}

std::string WorkerTuner::Environment(const devices::Device& device,
                                     const CompileOptions& options) const {
  return Cat("record=", kTuningRecordVersion, " ", TuneOptionsOf(device, options).Key(),
             " timeout_ms=", limits_.timeout.count(), " ", CodeEnvironment(device.target()));
}

worker::TuneOptions WorkerTuner::RunOptionsOf(const devices::Device& device,
                                              const CompileOptions& options,
                                              const WorkLimits& limits) const {
  worker::TuneOptions out = TuneOptionsOf(device, options);
  out.beam.limits = limits;
  out.beam.limits.deadline = std::min(limits.deadline, WorkLimits::Clock::now() + limits_.timeout);
  return out;
}

absl::StatusOr<TuningRecord> WorkerTuner::Tune(std::string_view graph,
                                               const devices::Device& device,
                                               const CompileOptions& options,
                                               const SearchControl& control) {
  ir::UOpContext ctx;
  UOPD_ASSIGN(const ir::UOp sink, ir::Decode(ctx, graph, ir::Level::kKernel));
  worker::TuneOptions tune = RunOptionsOf(device, options, control.work);
  if (control.limits.time < limits_.timeout) {
    WorkLimits& limits = tune.beam.limits;
    limits.deadline = std::min(limits.deadline, WorkLimits::Clock::now() + control.limits.time);
  }
  tune.beam.max_candidates = std::min(tune.beam.max_candidates, control.limits.candidates);
  Recall recall(memory_, graph, device.target(), options.ignore_beam_cache);
  tune.beam.book = &recall.book;
  tune.beam.model = &recall.model;
  tune.beam.progress = [&](const search::Trial& trial) {
    metrics::TuneCandidates({OutcomeOf(trial)}).Increment();
    recall.KeepSometimes();
    if (control.progress) control.progress(trial);
  };
  uint64_t pruned = 0, duplicates = 0;
  tune.beam.stepped = [&](const search::SearchResult& so_far) {
    pruned = static_cast<uint64_t>(so_far.pruned);
    duplicates = static_cast<uint64_t>(so_far.duplicates);
    if (control.left_out) control.left_out(pruned, duplicates);
  };
  auto found = worker::TuneKernel(ctx, sink, device.target(), tune, pools_(device));
  // What was left out in one step may be measured in a later one, so it is counted at the end,
  // however the search ended.
  metrics::TuneCandidates({"pruned"}).Increment(pruned);
  metrics::TuneCandidates({"duplicate"}).Increment(duplicates);
  UOPD_ASSIGN(worker::TunedKernel tuned, std::move(found));
  recall.KeepModel();
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
                                                const WorkLimits& limits) {
  ir::UOpContext ctx;
  UOPD_ASSIGN(const ir::UOp sink, ir::Decode(ctx, graph, ir::Level::kKernel));
  const worker::TuneOptions tune = RunOptionsOf(device, options, limits);
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
