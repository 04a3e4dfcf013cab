// SPDX-License-Identifier: MIT
#include "server/worker/tune/tune_kernel.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "core/search/stage_time.h"
#include "server/worker/tune/check_outputs.h"

namespace uopd::worker {
namespace {

constexpr double kLeastGain = 0.01;  // of the heuristic's time, that another choice must save
constexpr double kMostSeconds = 5;   // of all rounds, but kLeastRounds are made
constexpr int kLeastRounds = 3;
constexpr int kLoweringNice = 10;  // of the threads that make candidates

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

struct Finalist {
  search::Candidate candidate;
  bool is_heuristic = false;
  std::vector<double> rounds;  // seconds, round by round; empty: not measured
  bool differs = false;        // ran, and computed something else than the kernel without opts
  absl::Status status;

  double seconds() const {
    return rounds.empty() ? std::numeric_limits<double>::infinity() : Median(rounds);
  }
};

class Tuner {
 public:
  Tuner(const ir::UOpContext& ctx, ir::UOp sink, const Target& target, const TuneOptions& options,
        WorkerPools pools)
      : ctx_(ctx),
        sink_(sink),
        target_(target),
        options_(options),
        lowering_threads_(pools.compile.max_workers()),
        measurer_(ctx, sink, pools, MakeMeasurerOptions(options)) {}

  absl::StatusOr<TunedKernel> Run() {
    TunedKernel out;
    search::BeamOptions beam = options_.beam;
    beam.limits.deadline = SearchDeadline(beam.limits.deadline);
    beam.threads = lowering_threads_;
    // Requests come first. On Linux this is the nice value of the calling thread alone.
    beam.on_thread = [] {
      setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + kLoweringNice);
    };
    UOPD_ASSIGN(out.search, search::BeamSearch(ctx_, sink_, target_, beam, measurer_));
    UOPD_ASSIGN(std::vector<Finalist> finalists, ChooseFinalists(out.search));
    UOPD_TRY(WithFrame(RunReference(), "running the kernel without opts"));
    UOPD_TRY(Compare(finalists));
    for (const Finalist& f : finalists) {
      if (f.status.ok()) continue;
      out.rejected.push_back(Cat(Text(f.candidate.opts), ": ", StatusText(f.status)));
      UOPD_LOG(kWarn, "a tuned kernel is rejected", {"kernel", f.candidate.kernel.name},
               {"opts", Text(f.candidate.opts)}, {"error", f.status});
    }
    const Finalist* best = Best(finalists);
    if (best == nullptr) {
      if (absl::IsDeadlineExceeded(finalists.front().status)) return finalists.front().status;
      return absl::InternalError(Cat("no tuned kernel agrees with the reference: ",
                                     out.rejected.empty() ? "" : out.rejected.front()));
    }
    out.opts = best->candidate.opts;
    out.seconds = best->seconds();
    out.heuristic_seconds = HeuristicSeconds(finalists);
    return out;
  }

  absl::StatusOr<TunedKernel> Prove(const search::Opts& opts) {
    std::vector<Finalist> finalists;
    {
      UOPD_ASSIGN(auto given, Make(&opts, false));
      finalists.push_back({std::move(given), false});
    }
    if (auto heuristic = Make(nullptr, false); heuristic.ok()) {
      finalists.push_back({*std::move(heuristic), true});
    }
    if (absl::Status reference = RunReference(); !reference.ok()) {
      if (absl::IsCancelled(reference)) return reference;
      UOPD_TRY(options_.beam.limits.Check());  // else the deadline would be the kernel's fault
      return absl::UnavailableError(
          Cat("the kernel without opts does not run: ", StatusText(reference)));
    }
    UOPD_TRY(Compare(finalists));
    // A kernel that ended or held its worker does not run: by its code the error could be
    // anybody's.
    const absl::Status& winner = finalists[0].status;
    if (IsJobsFault(winner)) return absl::InternalError(StatusText(winner));
    UOPD_TRY(winner);
    TunedKernel out;
    out.opts = opts;
    out.seconds = finalists[0].seconds();
    out.heuristic_seconds = HeuristicSeconds(finalists);
    return out;
  }

 private:
  static MeasurerOptions MakeMeasurerOptions(const TuneOptions& options) {
    MeasurerOptions out;
    out.device = options.device;
    out.toolchain = options.toolchain;
    out.runs = options.runs;
    out.overlap = options.overlap;
    out.measure_limit = options.run_limit;
    out.limits = options.beam.limits;
    return out;
  }

  // The search gets only part of the time, so that its result can still be measured and checked.
  static std::chrono::steady_clock::time_point SearchDeadline(
      std::chrono::steady_clock::time_point whole) {
    const auto now = std::chrono::steady_clock::now();
    return whole == std::chrono::steady_clock::time_point::max() ? whole
                                                                 : now + (whole - now) / 4 * 3;
  }

  absl::StatusOr<search::Candidate> Make(const search::Opts* opts, bool noopt) const {
    codegen::Options options;
    options.fast_math = options_.beam.fast_math;
    options.noopt = noopt;
    options.opts = opts;
    return search::MakeCandidate(ctx_, sink_, target_, options, SIZE_MAX);
  }

  // The heuristic's choice and the best candidates of the search.
  absl::StatusOr<std::vector<Finalist>> ChooseFinalists(const search::SearchResult& found) const {
    std::vector<Finalist> out;
    if (auto heuristic = Make(nullptr, false); heuristic.ok()) {
      out.push_back({*std::move(heuristic), true});
    }
    int chosen = 0;
    for (const search::Trial* trial : found.Ranking()) {
      if (chosen >= std::max(options_.finalists, 1)) break;
      ++chosen;
      const bool known = std::any_of(out.begin(), out.end(), [&](const Finalist& f) {
        return f.candidate.opts == trial->opts;
      });
      if (known) continue;
      UOPD_ASSIGN(auto candidate, Make(&trial->opts, false));
      out.push_back({std::move(candidate), false});
    }
    return out;
  }

  // Compiles the finalists, compares their outputs with those of the kernel without opts, and
  // measures those that agree, by turns. CANCELLED: the tuning was.
  absl::Status Compare(std::vector<Finalist>& finalists) {
    std::vector<search::Candidate> batch;
    for (const Finalist& f : finalists) batch.push_back(f.candidate);
    const auto objects = measurer_.Compile(batch);
    for (size_t i = 0; i < finalists.size(); ++i) {
      Finalist& f = finalists[i];
      f.status = objects[i].ok() ? Judge(f, *objects[i]) : objects[i].status();
      if (absl::IsCancelled(f.status)) return f.status;
    }
    CondemnWrong(finalists, objects);
    return MeasureByTurns(finalists, objects);
  }

  // Kernels that compute something else are not run again, by any daemon. If no finalist agrees
  // with the kernel without opts, that kernel may be the wrong one, and nobody is to blame.
  void CondemnWrong(const std::vector<Finalist>& finalists,
                    const std::vector<absl::StatusOr<std::string>>& objects) {
    const auto agrees = [](const Finalist& f) { return f.status.ok(); };
    if (std::ranges::none_of(finalists, agrees)) return;
    for (size_t i = 0; i < finalists.size(); ++i) {
      if (finalists[i].differs)
        measurer_.Condemn(finalists[i].candidate, *objects[i], finalists[i].status);
    }
  }

  absl::Status RunReference() {
    UOPD_ASSIGN(const search::Candidate plain, Make(nullptr, true));
    UOPD_ASSIGN(const std::string object, measurer_.Compile(std::span(&plain, 1)).front());
    const search::StageTime time("reference");
    UOPD_ASSIGN(reference_,
                measurer_.Run(plain, object, 0, std::numeric_limits<double>::infinity(), true));
    return absl::OkStatus();
  }

  // Whether the finalist computes what the kernel without opts does.
  absl::Status Judge(Finalist& f, const std::string& object) {
    const search::StageTime time("confirm");
    UOPD_ASSIGN(
        const MeasureAnswer answer,
        measurer_.Run(f.candidate, object, 0, std::numeric_limits<double>::infinity(), true));
    if (answer.outputs.size() != reference_.outputs.size()) {
      return absl::InternalError("the reference has another number of outputs");
    }
    size_t output = 0;
    const auto& buffers = f.candidate.kernel.buffers;
    for (size_t slot = 0; slot < buffers.size(); ++slot) {
      if (!buffers[slot].written) continue;
      const absl::Status same =
          CheckOutputs(buffers[slot].dtype, reference_.outputs[output], answer.outputs[output]);
      f.differs = !same.ok();
      UOPD_TRY(WithFrame(same, Cat("checking buffer ", slot)));
      ++output;
    }
    return absl::OkStatus();
  }

  // Measures those that agree with the reference, all in each round, so that what else the machine
  // does meets them alike.
  absl::Status MeasureByTurns(std::vector<Finalist>& finalists,
                              std::span<const absl::StatusOr<std::string>> objects) {
    const search::StageTime time("compare");
    const auto begin = std::chrono::steady_clock::now();
    const int runs = std::max(1, options_.final_runs / std::max(1, options_.final_rounds));
    for (int round = 0; round < options_.final_rounds; ++round) {
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
      if (round >= kLeastRounds && spent.count() > kMostSeconds) break;
      for (size_t i = 0; i < finalists.size(); ++i) {
        Finalist& f = finalists[i];
        if (!f.status.ok()) continue;
        const auto answer = measurer_.Run(f.candidate, *objects[i], runs,
                                          std::numeric_limits<double>::infinity(), false);
        if (absl::IsCancelled(answer.status())) return answer.status();
        if (answer.ok()) {
          f.rounds.push_back(static_cast<double>(answer->min_ns) * 1e-9);
        } else {
          f.status = answer.status();
          f.rounds.clear();
        }
      }
    }
    return absl::OkStatus();
  }

  static double HeuristicSeconds(std::span<const Finalist> finalists) {
    for (const Finalist& f : finalists) {
      if (f.is_heuristic) return f.seconds();
    }
    return std::numeric_limits<double>::infinity();
  }

  // The fastest finalist. The heuristic's choice stays if the saving is small, or not to be seen in
  // most rounds. Null: none was measured.
  static const Finalist* Best(std::span<const Finalist> finalists) {
    const Finalist* heuristic = nullptr;
    for (const Finalist& f : finalists) {
      if (f.is_heuristic && !f.rounds.empty()) heuristic = &f;
    }
    const Finalist* best = heuristic;
    double least = heuristic != nullptr ? heuristic->seconds() * (1 - kLeastGain)
                                        : std::numeric_limits<double>::infinity();
    for (const Finalist& f : finalists) {
      if (f.rounds.empty() || f.seconds() >= least) continue;
      if (heuristic != nullptr) {
        size_t faster = 0;
        for (size_t i = 0; i < f.rounds.size(); ++i) faster += f.rounds[i] < heuristic->rounds[i];
        if (faster * 4 < f.rounds.size() * 3) continue;
      }
      least = f.seconds();
      best = &f;
    }
    return best;
  }

  const ir::UOpContext& ctx_;
  const ir::UOp sink_;
  const Target& target_;
  const TuneOptions& options_;
  const int lowering_threads_;
  WorkerMeasurer measurer_;
  MeasureAnswer reference_;
};

}  // namespace

std::string TuneOptions::Key() const {
  std::string out = Cat(beam.Key(), " measure=", kMeasurePolicyVersion,
                        " check=", kCheckPolicyVersion, " runs=", runs, " finalists=", finalists,
                        " final_runs=", final_runs, " final_rounds=", final_rounds);
  // Only another limit than the usual one is part of the key: so the results of daemons that had no
  // such setting stay.
  if (run_limit != TuneOptions().run_limit) Append(out, " run_ms=", run_limit.count());
  return out;
}

absl::StatusOr<TunedKernel> TuneKernel(const ir::UOpContext& ctx, ir::UOp sink,
                                       const Target& target, const TuneOptions& options,
                                       WorkerPools pools) {
  return Tuner(ctx, sink, target, options, pools).Run();
}

absl::StatusOr<TunedKernel> ProveKernel(const ir::UOpContext& ctx, ir::UOp sink,
                                        const Target& target, const TuneOptions& options,
                                        const search::Opts& opts, WorkerPools pools) {
  return Tuner(ctx, sink, target, options, pools).Prove(opts);
}

}  // namespace uopd::worker
