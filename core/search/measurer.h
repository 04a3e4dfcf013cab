// SPDX-License-Identifier: MIT
// Measurer: the interface through which the search measures candidates.
//
// server/worker implements it with worker processes; tests implement it with a cost model.
#pragma once
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/search/candidate.h"

namespace uopd::search {

class Measurer {
 public:
  virtual ~Measurer() = default;

  // Seconds per run of every candidate, in the order of `batch`; an error means that the candidate
  // failed. May compile in parallel. May stop timing a candidate that is clearly slower than
  // `best_seconds` (infinity: no time is known yet) and return a preliminary time.
  virtual std::vector<absl::StatusOr<double>> Measure(std::span<const Candidate> batch,
                                                      double best_seconds) = 0;
};

}  // namespace uopd::search
