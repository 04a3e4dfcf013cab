// SPDX-License-Identifier: MIT
// Measures candidates of the search in worker processes. Candidates are compiled in parallel and
// timed one at a time.
//
// Candidates whose objects are equal are timed once. Used by one thread at a time. Both pools
// outlive the measurer and may be shared. The measuring pool should have one worker, so that
// measurements do not disturb each other.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/work_limits.h"
#include "core/search/measurer.h"
#include "server/worker/job/measure_job.h"
#include "server/worker/supervisor.h"

namespace uopd::worker {

struct WorkerPools {
  Supervisor& compile;
  Supervisor& measure;
};

struct MeasurerOptions {
  std::string device = "CPU";
  std::string toolchain;           // as CompileRequest
  int runs = 10;                   // of a candidate
  int64_t budget_ns = 10'000'000;  // no further run of a candidate begins after that
  // Compile some candidates of a batch while others are measured: where measuring leaves processors
  // free.
  bool overlap = false;
  std::chrono::milliseconds compile_limit{10'000};
  std::chrono::milliseconds measure_limit{10'000};
  WorkLimits limits;
};

class WorkerMeasurer final : public search::Measurer {
 public:
  // `ctx` and `sink` are the kernel's. Its variables get the middle of their range.
  WorkerMeasurer(const ir::UOpContext& ctx, ir::UOp sink, WorkerPools pools,
                 MeasurerOptions options);

  std::vector<absl::StatusOr<double>> Measure(std::span<const search::Candidate> batch,
                                              double best_seconds) override;

  // The two steps separately. The objects are in the order of the candidates.
  std::vector<absl::StatusOr<std::string>> Compile(std::span<const search::Candidate> batch);
  // Of the whole budget of a measurement (measure_job.h), or of `budget_ns`.
  absl::StatusOr<MeasureAnswer> Run(const search::Candidate& candidate, const std::string& object,
                                    int runs, double best_seconds, bool want_outputs,
                                    int64_t budget_ns = MeasureRequest().budget_ns);
  // Puts the kernel into the quarantine of the pool that measures: it computes something else than
  // it should.
  void Condemn(const search::Candidate& candidate, const std::string& object,
               const absl::Status& why);

 private:
  // Without what says how to measure.
  absl::StatusOr<MeasureRequest> RequestOf(const search::Candidate& candidate,
                                           const std::string& object) const;
  // The shortest time of the candidate's program so far. It is timed if it was not timed before, or
  // if `again`.
  absl::StatusOr<double> Time(const search::Candidate& candidate,
                              const absl::StatusOr<std::string>& object, double best_seconds,
                              bool again);
  // Whether the best kernel of the batches before is now clearly slower than it was: then something
  // else used the machine, and the times of the batch count for little. Also if there is none yet:
  // the first times may be those of a machine that wakes up.
  bool WasDisturbed();

  struct Best {
    search::Candidate candidate;
    std::string object;
    double seconds = 0;
  };

  const WorkerPools pools_;
  const MeasurerOptions options_;
  absl::flat_hash_map<std::string, int64_t> variables_;
  absl::flat_hash_map<Digest, absl::StatusOr<double>> by_object_;
  std::optional<Best> best_;  // of all batches so far
};

}  // namespace uopd::worker
