// SPDX-License-Identifier: MIT
// BEAM: looks for the opts that make a kernel fastest, by measuring.
//
// Starts from the kernel without opts and from the heuristic's choice; each round makes the
// neighbours (moves.h) of the best `width` candidates, measures those whose text is new, and keeps
// the best `width` of all. Ends when a round brings no candidate or too little, when the budget of
// candidates or time is used up, or when cancelled; what has been found until then is the result.
//
// Deterministic for the same measurements: order of candidates, ties (the earlier one wins) and
// rounds depend on nothing else. One thread; the measurer may use more.
#pragma once
#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/search/measurer.h"

namespace uopd::search {

// Version of the search space and its order; part of the environment key of what tuning found.
inline constexpr int kSearchVersion = 1;

struct Trial {
  enum Outcome : uint8_t { kMeasured, kFailed };

  Opts opts;
  Outcome outcome = kMeasured;
  double seconds = std::numeric_limits<double>::infinity();
  std::string error;  // kFailed
  int round = 0;      // 0: the starts
};

struct BeamOptions {
  int width = 4;
  int max_candidates = 500;  // measured, in all
  int max_rounds = 12;
  int batch = 16;              // candidates that go to the measurer together
  double min_progress = 0.01;  // a round must save this part of the best time
  int64_t max_unrolled = 256;  // UnrolledElements of a candidate
  size_t max_lines = 3000;     // of its program
  bool fast_math = false;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::function<bool()> cancelled;             // null: never
  std::function<void(const Trial&)> progress;  // null, or called after each trial

  // The fields that decide what is found, as text: part of the environment key.
  std::string Key() const;
};

enum class StopReason : uint8_t {
  kExhausted,  // no candidate is left
  kConverged,  // the last round saved too little
  kBudget,     // max_candidates or max_rounds
  kDeadline,
  kCancelled,
};
std::string_view Name(StopReason reason);  // "converged"

struct SearchResult {
  Opts best;
  double seconds = 0;            // of best
  double heuristic_seconds = 0;  // of the heuristic's opts; infinity when they failed
  StopReason stop = StopReason::kExhausted;
  std::vector<Trial> trials;  // in order of measurement
  int duplicates = 0;         // candidates whose text had been seen
  int illegal = 0;            // candidates that did not lower

  // Trials that were measured, fastest first, ties in order: for trying the next one when a winner
  // turns out to be wrong.
  std::vector<const Trial*> Ranking() const;
};

// REQUIRES: sink passed ir::Verify(..., Stage::kKernel); ctx does not grow meanwhile. The first
// error when neither start can be measured; CANCELLED or DEADLINE_EXCEEDED when time ended before
// that.
absl::StatusOr<SearchResult> BeamSearch(const ir::UOpContext& ctx, ir::UOp sink,
                                        const Target& target, const BeamOptions& options,
                                        Measurer& measurer);

}  // namespace uopd::search
