// SPDX-License-Identifier: MIT
// Where the search gets its times from.
#pragma once
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/search/candidate.h"

namespace uopd::search {

class Measurer {
 public:
  virtual ~Measurer() = default;

  // Seconds per run of every candidate, in order. An error drops the candidate. May compile in
  // parallel; may stop timing a candidate once it is clearly slower than `best_seconds` (infinity
  // when nothing is known) and return what it has.
  virtual std::vector<absl::StatusOr<double>> Measure(std::span<const Candidate> batch,
                                                      double best_seconds) = 0;
};

}  // namespace uopd::search
