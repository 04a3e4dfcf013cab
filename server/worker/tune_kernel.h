// SPDX-License-Identifier: MIT
// Tuning of one kernel: BEAM over worker processes, a second look at the best, and a check of the
// winner against the kernel without opts.
//
// The result is opts, not code: whoever wants the kernel compiles it with codegen::Options::opts
// and keeps it under the usual key. Stateless; blocks for seconds to minutes on the caller's
// thread.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "core/search/beam.h"
#include "server/worker/worker_measurer.h"

namespace uopd::worker {

struct TuneOptions {
  // deadline and cancelled are those of the whole; the search gets three quarters of the time.
  search::BeamOptions beam;
  std::string device = "CPU";
  std::string toolchain;  // as CompileRequest
  int runs = 3;           // of a candidate
  int finalists = 3;      // of the search, besides the heuristic's choice
  int final_runs = 15;    // of a finalist

  // Everything here and in the versions of search, measuring and checking that decides the winner:
  // part of the environment key, next to codegen's and the device's.
  std::string Key() const;
};

struct TunedKernel {
  search::Opts opts;
  double seconds = 0;            // of the final runs
  double heuristic_seconds = 0;  // of the final runs; infinity when the heuristic's choice failed
  std::vector<std::string> rejected;  // finalists that failed or computed something else
  search::SearchResult search;
};

// REQUIRES: as search::BeamSearch. INTERNAL when the kernel without opts does not run or no
// finalist agrees with it.
absl::StatusOr<TunedKernel> TuneKernel(const ir::UOpContext& ctx, ir::UOp sink,
                                       const Target& target, const TuneOptions& options,
                                       WorkerPools pools);

}  // namespace uopd::worker
