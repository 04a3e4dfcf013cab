// SPDX-License-Identifier: MIT
// How many candidates a second the search of opts compiles and measures, kernel by kernel, with the
// workers that a daemon has. Candidates that are left out or have the program of an earlier one do
// not count. `lower_ms`, `compile_ms` and `measure_ms` tell what one measured candidate costs: all
// lists of opts that were lowered for it, compiling in one worker, and all its runs. `run_us`: one
// run of the best. Then the same of all kernels of a model, beside the search of the reference
// (tests/perf/peers/search.py) for those that cost most.
//
// `--model` is the beginning of the names of kernels; `--scale` sets how many candidates a search
// measures: 60 times the scale.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "core/ir/io/wire.h"
#include "core/search/beam.h"
#include "server/worker/tune/worker_measurer.h"
#include "tests/perf/peers/peer_process.h"
#include "tests/perf/perf.h"
#include "tests/perf/search/bench_workers.h"
#include "tests/perf/search/subjects.h"

namespace uopd::perf::rate_perf {
namespace {

int CandidatesOf(const Options& options) {
  return std::max(2, static_cast<int>(60 * options.scale));
}

double StageSeconds(const char* stage) { return metrics::TuneStageDuration({stage}).sum(); }

// Of the kernels of a model, or of all others.
struct Total {
  double candidates = 0, seconds = 0;
};

absl::Status Measure(const SearchSubject& subject, BenchWorkers& workers, const Options& options,
                     Total& total) {
  ir::UOpContext ctx;
  UOPD_ASSIGN(const ir::UOp sink, ir::Decode(ctx, subject.graph, ir::Level::kKernel));
  search::BeamOptions beam;
  beam.width = 2;
  beam.max_candidates = CandidatesOf(options);
  beam.patience = beam.max_candidates;
  beam.threads = workers.pools().compile.max_workers();
  worker::WorkerMeasurer measurer(ctx, sink, workers.pools(), workers.MeasurerFor());
  const double start = NowSeconds(), lower = StageSeconds("lower"),
               compile = StageSeconds("compile"), measure = StageSeconds("measure");
  UOPD_ASSIGN(const search::SearchResult found,
              search::BeamSearch(ctx, sink, workers.target(), beam, measurer));
  const double seconds = NowSeconds() - start;
  const auto trials = static_cast<double>(found.trials.size());
  total.candidates += trials;
  total.seconds += seconds;
  const auto report = [&](const char* what, const char* unit, double value) {
    options.report({Cat("search-rate.", subject.name, what), unit, value});
  };
  report("", "candidates/s", trials / seconds);
  report(".left_out", "candidates", found.pruned);
  report(".duplicates", "candidates", found.duplicates);
  report(".illegal", "candidates", found.illegal);
  report(".lower_ms", "ms", 1e3 * (StageSeconds("lower") - lower) / trials);
  report(".compile_ms", "ms", 1e3 * (StageSeconds("compile") - compile) / trials);
  report(".measure_ms", "ms", 1e3 * (StageSeconds("measure") - measure) / trials);
  report(".run_us", "us", 1e6 * found.seconds);
  return absl::OkStatus();
}

// Candidates a second of the reference, for the most expensive kernels of a model.
absl::StatusOr<double> PeerRate(const std::string& model, int candidates) {
  constexpr int kKernels = 3;
  UOPD_ASSIGN(
      const auto peer,
      PeerProcess::Start("search.py", {"CPU:LLVM", Cat(std::thread::hardware_concurrency())}));
  UOPD_ASSIGN(const std::string line, peer->Ask(Cat(model, " ", kKernels, " ", candidates)));
  const auto answer = nlohmann::json::parse(line, nullptr, false);
  if (!answer.is_object()) return absl::InternalError(Cat("not an answer: ", line));
  return answer.at("candidates").get<double>() / answer.at("seconds").get<double>();
}

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  const std::map<std::string, std::string> peers = {{"resnet", "resnet50"}, {"llama", "decode"}};
  UOPD_ASSIGN(const auto workers, BenchWorkers::Start(options.daemon));
  std::map<std::string, Total> totals;
  for (const char* set : {"models", "others"}) {
    UOPD_ASSIGN(const auto subjects, SearchSubjects(set, workers->target()));
    for (const SearchSubject& subject : subjects) {
      if (!subject.name.starts_with(options.model)) continue;
      const bool of_model = set == std::string_view("models");
      Total& total = totals[of_model ? subject.name.substr(0, subject.name.find('.')) : set];
      UOPD_TRY(WithFrame(Measure(subject, *workers, options, total), subject.name));
    }
  }
  for (const auto& [name, total] : totals) {
    options.report(
        {Cat("search-rate.all.", name), "candidates/s", total.candidates / total.seconds});
    const auto peer = peers.find(name);
    if (peer == peers.end()) continue;
    const auto rate = PeerRate(peer->second, CandidatesOf(options));
    if (absl::IsUnavailable(rate.status())) continue;  // it is not installed
    UOPD_TRY(rate.status());
    options.report({Cat("search-rate.all.", name, ".peer"), "candidates/s", *rate});
  }
  return std::vector<Measurement>();
}

const Register kRegister("search-rate", "candidates a second of the search of opts", Run);

}  // namespace
}  // namespace uopd::perf::rate_perf
