// SPDX-License-Identifier: MIT
// How close a search of 60 candidates comes to the best of 2,000: from the heuristic's choice, and
// from the kernel without opts. The short searches share a cost model, as those of a daemon do; a
// kernel's own searches teach it afterwards. The winners are then measured again, by turns, and
// compared by the medians of the ratios of their times.
//
// `--model` is the beginning of the names of kernels; `--scale` sets the size of the long search:
// 2,000 times the scale.
#include <algorithm>
#include <cstdio>

#include "core/base/text.h"
#include "core/ir/io/wire.h"
#include "core/search/beam.h"
#include "server/worker/tune/worker_measurer.h"
#include "tests/perf/perf.h"
#include "tests/perf/search/bench_workers.h"
#include "tests/perf/search/subjects.h"

namespace uopd::perf::quality_perf {
namespace {

constexpr int kFew = 60, kMany = 2000, kRounds = 15;
constexpr size_t kFinalists = 3;  // of each search
constexpr double kClearlyFaster = 0.99;

search::BeamOptions Few(bool from_heuristic) {
  search::BeamOptions out;
  out.width = 2;
  out.max_candidates = kFew;
  out.patience = kFew;
  out.from_heuristic = from_heuristic;
  return out;
}

search::BeamOptions Many(double scale) {
  search::BeamOptions out;
  out.width = 8;
  out.batch = 16;
  out.max_candidates = std::max(2, static_cast<int>(kMany * scale));
  out.patience = out.max_candidates;
  return out;
}

// Seconds of each of `all` by turns, round by round.
absl::StatusOr<std::vector<std::vector<double>>> ByTurns(
    worker::WorkerMeasurer& measurer, const std::vector<search::Candidate>& all) {
  const auto objects = measurer.Compile(all);
  std::vector<std::vector<double>> out;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double>& times = out.emplace_back();
    for (size_t i = 0; i < all.size(); ++i) {
      UOPD_TRY(objects[i].status());
      UOPD_ASSIGN(const worker::MeasureAnswer answer,
                  measurer.Run(all[i], *objects[i], 5, 1e9, false));
      times.push_back(static_cast<double>(answer.min_ns));
    }
  }
  return out;
}

double Ratio(const std::vector<std::vector<double>>& rounds, size_t a, size_t b) {
  std::vector<double> ratios;
  for (const auto& times : rounds) ratios.push_back(times[a] / times[b]);
  return Percentile(ratios, 0.5);
}

absl::Status Measure(const SearchSubject& subject, BenchWorkers& workers, const Options& options,
                     search::CostModel& model) {
  ir::UOpContext ctx;
  UOPD_ASSIGN(const ir::UOp sink, ir::Decode(ctx, subject.graph, ir::Level::kKernel));
  std::vector<search::Candidate> winners;
  const auto make = [&](const codegen::Options& how) {
    return search::MakeCandidate(ctx, sink, workers.target(), how, SIZE_MAX);
  };
  {
    UOPD_ASSIGN(auto heuristic, make({}));
    winners.push_back(std::move(heuristic));
  }
  // As tuning does: the best few of a search are measured again, by turns, with the heuristic's
  // choice if it knew that one, which stays unless another one is clearly faster.
  const auto run = [&](search::BeamOptions beam, search::CostModel* maybe_model) -> absl::Status {
    beam.model = maybe_model;
    beam.threads = workers.pools().compile.max_workers();
    worker::WorkerMeasurer measurer(ctx, sink, workers.pools(), workers.MeasurerFor());
    UOPD_ASSIGN(const auto found, search::BeamSearch(ctx, sink, workers.target(), beam, measurer));
    std::vector<search::Candidate> finalists;
    if (beam.from_heuristic) finalists.push_back(winners[0]);
    const auto ranking = found.Ranking();
    for (size_t i = 0; i < std::min<size_t>(ranking.size(), kFinalists); ++i) {
      codegen::Options how;
      how.opts = &ranking[i]->opts;
      UOPD_ASSIGN(auto made, make(how));
      finalists.push_back(std::move(made));
    }
    UOPD_ASSIGN(const auto rounds, ByTurns(measurer, finalists));
    size_t best = 0;
    for (size_t i = 1; i < finalists.size(); ++i) {
      const bool is_heuristic = beam.from_heuristic && best == 0;
      if (Ratio(rounds, i, best) < (is_heuristic ? kClearlyFaster : 1)) best = i;
    }
    winners.push_back(std::move(finalists[best]));
    return absl::OkStatus();
  };
  search::CostModel before = model;  // a search teaches the model at its end
  UOPD_TRY(run(Few(true), &model));
  UOPD_TRY(run(Few(false), &before));
  UOPD_TRY(run(Many(options.scale), nullptr));
  worker::WorkerMeasurer measurer(ctx, sink, workers.pools(), workers.MeasurerFor());
  UOPD_ASSIGN(const auto rounds, ByTurns(measurer, winners));
  // The long search is one of several: its best is the best of all.
  size_t best = 3;
  for (size_t i = 0; i < winners.size(); ++i) {
    if (Ratio(rounds, i, best) < 1) best = i;
  }
  const auto report = [&](const char* what, size_t which) {
    options.report(
        {Cat("search.", subject.name, ".", what), "of the best", Ratio(rounds, which, best)});
  };
  report("heuristic", 0);
  report("from_heuristic", 1);
  report("from_nothing", 2);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  UOPD_ASSIGN(const auto workers, BenchWorkers::Start(options.daemon));
  search::CostModel model;
  for (const char* set : {"models", "others"}) {
    UOPD_ASSIGN(const auto subjects, SearchSubjects(set, workers->target()));
    for (const SearchSubject& subject : subjects) {
      if (!subject.name.starts_with(options.model)) continue;
      UOPD_TRY(WithFrame(Measure(subject, *workers, options, model), subject.name));
    }
  }
  return std::vector<Measurement>();
}

const Register kRegister("search-quality",
                         "what a search of 60 candidates finds, of the best of 2,000", Run);

}  // namespace
}  // namespace uopd::perf::quality_perf
