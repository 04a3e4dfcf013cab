// SPDX-License-Identifier: MIT
// Tuning of one kernel: BEAM over worker processes, a second measurement of the best candidates,
// and a check of the winner against the kernel without opts.
//
// The result is opts, not code. A user of the kernel compiles it with codegen::Options::opts and
// stores it under the usual key. Stateless. Blocks the caller's thread for seconds to minutes.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "core/search/beam.h"
#include "server/worker/tune/worker_measurer.h"

namespace uopd::worker {

struct TuneOptions {
  // Its limits are those of the whole tuning. The search gets three quarters of the time.
  search::BeamOptions beam;
  std::string device = "CPU";
  std::string toolchain;  // as CompileRequest
  bool overlap = false;   // as MeasurerOptions
  int runs = 10;          // timed runs of a candidate, fewer of those that take long
  int finalists = 3;      // taken from the search, besides the heuristic's choice
  int final_runs = 35;    // timed runs of a finalist
  int final_rounds = 7;   // in which the finalists take turns
  // Of one measurement with all its runs. A kernel that takes longer is put into quarantine.
  std::chrono::milliseconds run_limit{10'000};

  // All settings here, and the versions of search, measuring and checking, that decide the winner.
  // Part of the environment key, next to the key parts of codegen and the device.
  std::string Key() const;
};

struct TunedKernel {
  search::Opts opts;
  double seconds = 0;                 // of the final runs: the median of the rounds
  double heuristic_seconds = 0;       // the same; infinity when the heuristic's choice failed
  std::vector<std::string> rejected;  // finalists that failed or computed another result
  search::SearchResult search;
};

// REQUIRES: as search::BeamSearch. INTERNAL: the kernel without opts does not run, or no finalist
// agrees with it.
absl::StatusOr<TunedKernel> TuneKernel(const ir::UOpContext& ctx, ir::UOp sink,
                                       const Target& target, const TuneOptions& options,
                                       WorkerPools pools);

// The last steps of a tuning for opts that somebody else found: the kernel with `opts` is checked
// against the kernel without opts and measured, and so is the heuristic's choice. Of the result,
// `opts` are those given. INTERNAL: with these opts the kernel does not run, ends or hangs its
// worker, or computes another result. INVALID_ARGUMENT: the opts do not apply. UNAVAILABLE: the
// kernel without opts does not run, so nothing is known about these; nor by any other error.
absl::StatusOr<TunedKernel> ProveKernel(const ir::UOpContext& ctx, ir::UOp sink,
                                        const Target& target, const TuneOptions& options,
                                        const search::Opts& opts, WorkerPools pools);

}  // namespace uopd::worker
