// SPDX-License-Identifier: MIT
// BeamSearch: a beam search for the opts that make a kernel fastest, by measuring candidates.
//
// It starts from the kernel without opts and from the choice of the heuristic. Each round creates
// the neighbours (moves.h) of the best `width` candidates, measures those whose text is new, and
// keeps the best `width` of all candidates. It ends when a round has no new candidate or improves
// too little, when the budget of candidates or time is used up, or when it is cancelled. The result
// is the best candidate so far. The engine compiles and measures through a Measurer and stores the
// result in the cache.
//
// Deterministic for equal measurements: the order of candidates, ties (the earlier one wins) and
// the number of rounds depend on nothing else. Runs on one thread; the measurer may use more.
#pragma once
#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/search/measurer.h"

namespace uopd::search {

// Version of the search space and its order; part of the environment key of tuning results.
inline constexpr int kSearchVersion = 6;

// One measurement of a candidate.
struct Trial {
  enum Outcome : uint8_t { kMeasured, kFailed };

  Opts opts;
  Outcome outcome = kMeasured;
  double seconds = std::numeric_limits<double>::infinity();  // per run
  std::string error;                                         // set if kFailed
  int round = 0;                                             // 0: the two starting points
};

struct BeamOptions {
  int width = 4;             // candidates kept after each round
  int max_candidates = 500;  // measured in total
  int max_rounds = 12;
  int batch = 16;              // candidates that are measured together
  double min_progress = 0.01;  // fraction of the best time that a round must save
  int64_t max_unrolled = 256;  // limit on UnrolledElements of a candidate
  size_t max_lines = 3000;     // limit on the lines of its kernel
  bool fast_math = false;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::function<bool()> cancelled;             // polled; null: never cancelled
  std::function<void(const Trial&)> progress;  // called after each trial; null: not called

  // The fields that affect the result, as text: part of the environment key.
  std::string Key() const;
};

enum class StopReason : uint8_t {
  kExhausted,  // no new candidate is left
  kConverged,  // the last round saved less than min_progress
  kBudget,     // max_candidates or max_rounds is reached
  kDeadline,
  kCancelled,
};
std::string_view Name(StopReason reason);  // "converged"

struct SearchResult {
  Opts best;
  double seconds = 0;            // per run of `best`
  double heuristic_seconds = 0;  // per run of the heuristic's choice; infinity if it failed
  StopReason stop = StopReason::kExhausted;
  std::vector<Trial> trials;  // in order of measurement
  int duplicates = 0;         // candidates with the text of an earlier one
  int illegal = 0;            // candidates that codegen refused

  // The measured trials, fastest first, ties in order of measurement. If the winner turns out to
  // compute wrong values, the caller can take the next one.
  std::vector<const Trial*> Ranking() const;
};

// REQUIRES: sink passed ir::Verify(..., Level::kKernel); no nodes are added to ctx meanwhile. If
// neither starting point can be measured: CANCELLED or DEADLINE_EXCEEDED if the search was stopped,
// else the first error.
absl::StatusOr<SearchResult> BeamSearch(const ir::UOpContext& ctx, ir::UOp sink,
                                        const Target& target, const BeamOptions& options,
                                        Measurer& measurer);

}  // namespace uopd::search
