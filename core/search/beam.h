// SPDX-License-Identifier: MIT
// BeamSearch: the search for the opts that make a kernel fastest, by measuring candidates.
//
// The beam is what the field and the flag BEAM mean by it: `width` candidates whose neighbours are
// tried. Which neighbours are measured is chosen as in Bayesian optimisation.
//
// It starts from the choice of the heuristic, from the kernel without opts, and from some seeds
// (seeds.h). Each step adds the neighbours (moves.h) of the best `width` candidates, and of the
// `width` most promising that were not measured, to the frontier; makes the programs of the most
// promising lists of opts there; and measures a batch of the most promising programs. What is
// promising is said by two models that learn from every measurement (surrogate.h), one of the opts
// and one of the programs; what was learned from other kernels is the second one's prior
// (cost_model.h). Within a batch, what was chosen counts as measured with its expected time (the
// "kriging believer" of Ginsbourger, Le Riche and Carraro, "Kriging is well-suited to parallelize
// optimization", 2010). A program is measured once, however many lists of opts give it, and never
// if the book has it (trial_book.h). Programs that both models expect to be clearly slower are left
// out.
//
// The search ends when `patience` steps in turn saved too little, when nothing is left that could
// be faster, when the budget of candidates or time is used up, or when it is cancelled. The result
// is the best candidate so far. The engine compiles and measures through a Measurer and stores the
// result in the cache.
//
// Deterministic for equal measurements: the order of candidates, ties (the earlier one wins) and
// the number of steps depend on nothing else. The measurer and the callbacks are called on the
// thread of the caller.
#pragma once
#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/work_limits.h"
#include "core/search/cost_model.h"
#include "core/search/measurer.h"
#include "core/search/trial_book.h"

namespace uopd::search {

// Version of the search space and its order; part of the environment key of tuning results.
inline constexpr int kSearchVersion = 10;

// One measurement of a candidate.
struct Trial {
  enum Outcome : uint8_t { kMeasured, kFailed };

  Opts opts;
  Outcome outcome = kMeasured;
  double seconds = std::numeric_limits<double>::infinity();  // per run
  bool remembered = false;                                   // not measured now: the book had it
  std::string error;                                         // set if kFailed
  int round = 0;                                             // the step; 0: the starting points
};

struct SearchResult;

struct BeamOptions {
  int width = 4;               // candidates kept after each round
  int max_candidates = 500;    // measured in total
  int batch = 8;               // candidates that are measured together
  int patience = 4;            // steps without progress before it ends
  double min_progress = 0.01;  // fraction of the best time that a step must save
  bool from_heuristic = true;  // false: the kernel without opts is the only start
  int64_t max_unrolled = 256;  // limit on UnrolledElements of a candidate
  size_t max_lines = 3000;     // limit on the lines of its kernel
  int threads = 1;             // that make candidates; their number changes no result
  // Called at the start of each of these threads, except the calling one. Null: not called.
  std::function<void()> on_thread;
  bool fast_math = false;
  WorkLimits limits{};
  std::function<void(const Trial&)> progress;  // called after each trial; null: not called
  // Called after each step and at the end with what is known so far: trials, and counts of what was
  // not measured. Null: not called.
  std::function<void(const SearchResult&)> stepped;
  // What is known from before, and gets what the search measures: times of this kernel's programs,
  // and how times depend on programs. They outlive the search. Null: nothing.
  TrialBook* book = nullptr;
  CostModel* model = nullptr;

  // The fields that affect the result, as text: part of the environment key.
  std::string Key() const;
};

enum class StopReason : uint8_t {
  kExhausted,  // no new candidate is left
  kConverged,  // the last steps saved less than min_progress, or nothing is left that could save it
  kBudget,     // max_candidates is reached
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
  int pruned = 0;  // candidates that were made, and that the model expected too little of

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
