// SPDX-License-Identifier: MIT
// How many candidates a second the search of opts compiles and measures, kernel by kernel, with the workers that a daemon
// has. Candidates that are left out or have the program of an earlier one do not count. `compile_ms` and `run_us` tell what
// one candidate costs: compiling in one worker, and one run of the best.
//
// `--model` is the beginning of the names of kernels; `--scale` sets how many candidates a search measures: 60 times the
// scale.
#include <algorithm>

#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "core/ir/io/wire.h"
#include "core/search/beam.h"
#include "server/worker/worker_measurer.h"
#include "tests/perf/perf.h"
#include "tests/perf/search/bench_workers.h"
#include "tests/perf/search/subjects.h"

namespace uopd::perf {
namespace {

double CompileSeconds() { return metrics::TuneStageDuration({"compile"}).sum(); }

absl::Status Measure(const SearchSubject& subject, BenchWorkers& workers, const Options& options) {
  ir::UOpContext ctx;
  UOPD_ASSIGN(const ir::UOp sink, ir::Decode(ctx, subject.graph, ir::Level::kKernel));
  search::BeamOptions beam;
  beam.width = 2;
  beam.max_candidates = std::max(2, static_cast<int>(60 * options.scale));
  beam.patience = beam.max_candidates;
  worker::WorkerMeasurer measurer(ctx, sink, workers.pools(), workers.MeasurerFor());
  const double start = NowSeconds(), compile = CompileSeconds();
  UOPD_ASSIGN(const search::SearchResult found,
              search::BeamSearch(ctx, sink, workers.target(), beam, measurer));
  const double seconds = NowSeconds() - start;
  const auto trials = static_cast<double>(found.trials.size());
  const auto report = [&](const char* what, const char* unit, double value) {
    options.report({Cat("search-rate.", subject.name, what), unit, value});
  };
  report("", "candidates/s", trials / seconds);
  report(".left_out", "candidates", found.pruned);
  report(".duplicates", "candidates", found.duplicates);
  report(".compile_ms", "ms", 1e3 * (CompileSeconds() - compile) / trials);
  report(".run_us", "us", 1e6 * found.seconds);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  UOPD_ASSIGN(const auto workers, BenchWorkers::Start(options.daemon));
  for (const char* set : {"models", "others"}) {
    UOPD_ASSIGN(const auto subjects, SearchSubjects(set, workers->target()));
    for (const SearchSubject& subject : subjects) {
      if (!subject.name.starts_with(options.model)) continue;
      UOPD_TRY(WithFrame(Measure(subject, *workers, options), subject.name));
    }
  }
  return std::vector<Measurement>();
}

const Register kRegister("search-rate", "candidates a second of the search of opts", Run);

}  // namespace
}  // namespace uopd::perf
