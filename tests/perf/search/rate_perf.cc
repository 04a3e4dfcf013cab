// SPDX-License-Identifier: MIT
// How many candidates a second the search of opts compiles and measures, kernel by kernel, with the workers that a daemon
// has. `--model` is the beginning of the names of kernels; `--scale` sets how many candidates a search measures: 60 times
// the scale.
#include <cstdio>

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

double StageSum(const char* stage) { return metrics::TuneStageDuration({stage}).sum(); }

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  UOPD_ASSIGN(const auto workers, BenchWorkers::Start(options.daemon));
  std::vector<SearchSubject> subjects;
  for (const char* set : {"models", "others"}) {
    UOPD_ASSIGN(const auto some, SearchSubjects(set, workers->target()));
    subjects.insert(subjects.end(), some.begin(), some.end());
  }
  std::vector<Measurement> out;
  for (const SearchSubject& subject : subjects) {
    if (!subject.name.starts_with(options.model)) continue;
    ir::UOpContext ctx;
    UOPD_ASSIGN(const ir::UOp sink, ir::Decode(ctx, subject.graph, ir::Level::kKernel));
    search::BeamOptions beam;
    beam.width = 2;
    beam.max_candidates = std::max(2, static_cast<int>(60 * options.scale));
    beam.min_progress = -1e9;  // to the last candidate
    worker::WorkerMeasurer measurer(ctx, sink, workers->pools(), workers->MeasurerFor());
    if (auto made = search::MakeCandidate(ctx, sink, workers->target(), {}, SIZE_MAX); made.ok()) {
      std::string text;
      for (const auto& opt : made->opts) Append(text, codegen::Text(opt), " ");
      std::fprintf(stderr, "heuristic %s: %d lines\n", text.c_str(),
                   (int)std::count(made->source.begin(), made->source.end(), '\n'));
    } else
      std::fprintf(stderr, "%s\n", made.status().ToString().c_str());
    const double compile = StageSum("compile"), measure = StageSum("measure");
    const double start = NowSeconds();
    auto found = search::BeamSearch(ctx, sink, workers->target(), beam, measurer);
    const double seconds = NowSeconds() - start;
    UOPD_TRY(WithFrame(found.status(), subject.name));
    std::fprintf(stderr,
                 "%s: %zu trials in %.2f s = %.1f/s, %d duplicates, %d illegal, heuristic %.1f us, "
                 "best %.1f us, %s; compile %.2f s in two workers, measure %.2f s\n",
                 subject.name.c_str(), found->trials.size(), seconds,
                 static_cast<double>(found->trials.size()) / seconds, found->duplicates,
                 found->illegal, found->heuristic_seconds * 1e6, found->seconds * 1e6,
                 std::string(search::Name(found->stop)).c_str(), StageSum("compile") - compile,
                 StageSum("measure") - measure);
    if (std::getenv("UOPD_TRIALS") != nullptr)
      for (const search::Trial& t : found->trials) {
        std::string text;
        for (const auto& opt : t.opts) Append(text, codegen::Text(opt), " ");
        std::fprintf(stderr, "  %d %.1f us %s %s\n", t.round, t.seconds * 1e6, text.c_str(),
                     t.error.c_str());
      }
    out.push_back({Cat("search-rate.", subject.name), "candidates/s",
                   static_cast<double>(found->trials.size()) / seconds});
  }
  return out;
}

const Register kRegister("search-rate", "candidates a second of the search of opts", Run);

}  // namespace
}  // namespace uopd::perf
